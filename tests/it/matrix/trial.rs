//! One point of the matrix, tried and checked.

use std::pin::pin;
use std::time::Duration;

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{Pod, ServiceAccount},
};
use kube::{
    ResourceExt,
    api::{ListParams, ObjectMeta},
};
use rustix::process::{Signal, kill_process};
use tokio::time::sleep;

use super::bystanders::Bystanders;
use super::point::Point;
use crate::support::{
    bed::Bed,
    cli::Outcome,
    proxy::{Proxy, Rule},
    scene::{Objects, Scene},
    wait::until,
};

/// How long a signal has to be noticed before the request that was held goes on.
const NOTICED: Duration = Duration::from_millis(100);

/// How a point ended well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ending {
    /// Nothing was left.
    Clean,
    /// What was left was listed, and then deleted.
    Finished,
    /// What was left was listed, and nothing proves whose it is: the document of a Job that is gone.
    Unprovable,
    /// The run had no such request.
    NeverReached,
}

/// A run, and what stands beside it.
pub(super) struct Trial {
    scene: Scene,
    bystanders: Bystanders,
    proxy: Proxy,
}

impl Trial {
    /// Tries one point. What does not hold is the error.
    pub(super) async fn run(point: &Point) -> Result<Ending, String> {
        let bed = Bed::shared().await;
        let proxy = Proxy::before(bed);
        let proxy = if point.http1 { proxy.http1_only() } else { proxy }.start().await;
        let scene = Scene::behind("matrix", &proxy).await;
        let trial = Self { bystanders: Bystanders::of(&scene).await, scene, proxy };
        let rule = trial.proxy.on(point.request.when(&trial.scene.run_id), point.disturbance.action());
        let ran = trial.disturb(point, &rule).await;
        let reached = rule.hits() > 0;
        if reached && point.disturbance.comes_late() {
            rule.release();
            rule.committed().await;
        }
        trial.proxy.lift_all();
        let ending = trial.check(&ran).await;
        match ending {
            Ok(_) if !reached => Ok(Ending::NeverReached),
            Ok(ending) => Ok(ending),
            Err(why) => Err(format!("{why}\n{ran}\n{}", trial.proxy.transcript())),
        }
    }

    /// Runs the plugin to its end, with a signal when the request has got where it is to come.
    async fn disturb(&self, point: &Point, rule: &Rule) -> Outcome {
        let bounds = ["--timeout", "30s", "--cleanup-timeout", "15s", "--request-timeout", "4s"];
        let running = self.scene.snapshot(point.course.script).args(bounds).spawn();
        let pid = running.pid();
        let mut ended = pin!(running.wait());
        let Some(signal) = point.disturbance.signal() else { return ended.await };
        tokio::select! {
            ran = &mut ended => return ran,
            () = there(rule, point.disturbance.awaits_commit()) => {}
        }
        kill_process(pid, signal).unwrap();
        if !point.disturbance.comes_late() {
            sleep(NOTICED).await;
            rule.lift();
        }
        ended.await
    }

    async fn check(&self, ran: &Outcome) -> Result<Ending, String> {
        self.check_exit(ran)?;
        let active = self.remains_active().await;
        // Straight to the API server: the address differs, the cluster does not.
        let admin = self.scene.bed.kubeconfig(self.scene.bed.admin(), None);
        self.scene.home.write(".kube/config", &admin);

        let left = self.left().await;
        let listed = self.listed().await?;
        let orphans = if active { Vec::new() } else { left.keys().cloned().collect() };
        if listed != orphans {
            return Err(format!("left: {:#?}\nactive: {active}\nlisted: {listed:#?}", left.keys()));
        }
        let cleaned = self.scene.cleanup().run().await;
        let after = self.left().await;
        let changed = self.bystanders.changed(&self.scene).await;
        if !changed.is_empty() {
            return Err(format!("bystanders were touched: {changed:#?}"));
        }
        // Without its Job nothing proves a document, and it stays where it is listed.
        let is_document = |object: &&String| object.starts_with("ConfigMap ");
        let unprovable = after.keys().filter(is_document).count();
        match (left.len(), after.len()) {
            (0, 0) if cleaned.status() == Some(0) => Ok(Ending::Clean),
            (_, 0) if cleaned.status() == Some(0) => Ok(Ending::Finished),
            (_, 1) if unprovable == 1 => {
                let reasons = self.scene.listed().await;
                match reasons.iter().find(|(object, _)| after.contains_key(*object)) {
                    Some((_, reason)) if reason == "StagingJobGone" => Ok(Ending::Unprovable),
                    _ => Err(format!("not left as unprovable: {reasons:#?}\n{cleaned}")),
                }
            }
            _ => Err(format!("left after cleanup: {after:#?}\n{cleaned}")),
        }
    }

    /// The run said how it ended, and a document that it promised is whole.
    fn check_exit(&self, ran: &Outcome) -> Result<(), String> {
        match ran.status() {
            Some(0 | 11) if ran.stdout() != self.scene.document() => Err("stdout is not the document".to_owned()),
            Some(0 | 1 | 3 | 4 | 5 | 6 | 10 | 11 | 129 | 130 | 143) => Ok(()),
            Some(code) => Err(format!("exit code {code} says nothing about a cluster")),
            None => {
                ran.killed_by(Signal::KILL);
                Ok(())
            }
        }
    }

    /// Waits until no agent of this run is at work, and nothing is on its way out: a killed run's work goes on. Gives whether the run then still counts as
    /// active: a Job that came after its account was deleted gets no pod, and so no end.
    async fn remains_active(&self) -> bool {
        let (jobs, pods, accounts) =
            (self.scene.api::<Job>(), self.scene.api::<Pod>(), self.scene.api::<ServiceAccount>());
        let all = ListParams::default();
        until("the agent to end", async || {
            let (jobs, pods) = (jobs.list(&all).await.unwrap().items, pods.list(&all).await.unwrap().items);
            let is_going = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
            let going =
                jobs.iter().any(|job| is_going(&job.metadata)) || pods.iter().any(|pod| is_going(&pod.metadata));
            match jobs.into_iter().find(|job| !has_ended(job) && !is_going(&job.metadata)) {
                Some(job) => accounts.get_opt(&job.name_any()).await.unwrap().is_none().then_some(true),
                None => (!going).then_some(false),
            }
        })
        .await
    }

    /// What is left of the run.
    async fn left(&self) -> Objects {
        let mut left = self.scene.objects().await;
        left.retain(|object, _| !self.bystanders.have(object));
        left
    }

    /// What `orphans` lists of the run.
    async fn listed(&self) -> Result<Vec<String>, String> {
        let listed = self.scene.listed().await;
        let [starting, other] = ["Starting", "NoRecord"];
        let theirs = listed.iter().filter(|(object, _)| self.bystanders.have(object));
        for (object, reason) in theirs {
            if reason != starting && reason != other {
                return Err(format!("{object}, of another invocation, is listed as {reason}"));
            }
        }
        Ok(listed.into_keys().filter(|object| !self.bystanders.have(object)).collect())
    }
}

fn has_ended(job: &Job) -> bool {
    let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut ended = conditions.filter(|condition| matches!(condition.type_.as_str(), "Complete" | "Failed"));
    ended.any(|condition| condition.status == "True")
}

/// Waits until the rule's request has arrived, or is committed.
async fn there(rule: &Rule, committed: bool) {
    if committed { rule.committed().await } else { rule.arrived().await }
}
