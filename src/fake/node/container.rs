//! One container: its script, acted as a container runtime would.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{Container, Pod},
    jiff::Timestamp,
};
use tokio::{sync::mpsc::UnboundedSender, time::sleep};
use tokio_util::sync::CancellationToken;

use super::super::logs::Log;
use super::script::{Content, End, OnTerm, Script, Start, Step};
use super::{
    Cluster,
    agent::Agent,
    event::Events,
    status::{ContainerState, Termination},
};

/// The exit code of a process that SIGTERM, SIGKILL ended.
const TERMINATED: i32 = 143;
const KILLED: i32 = 137;

/// A container of a pod.
pub(super) struct Acting {
    pub(super) cluster: Arc<Cluster>,
    pub(super) pod: Arc<Pod>,
    pub(super) index: usize,
    pub(super) container: Container,
    pub(super) log: Arc<Log>,
    /// SIGTERM.
    pub(super) term: CancellationToken,
    /// Where each new state goes.
    pub(super) states: UnboundedSender<(usize, ContainerState)>,
}

impl Acting {
    /// Acts the container's script to its end, which is the last state sent.
    pub(super) async fn act(self) {
        let end = match Script::of_image(self.image()) {
            Ok(script) => self.act_script(&script).await,
            Err(slip) => {
                self.wait_to_start("ErrImagePull", &slip).await;
                never_started()
            }
        };
        self.log.end();
        self.enter(ContainerState::Terminated(end));
    }

    async fn act_script(&self, script: &Script) -> Termination {
        let image = self.image();
        match script.start {
            Start::After(delay) => {
                tokio::select! {
                    () = sleep(delay) => {}
                    () = self.term.cancelled() => return never_started(),
                }
                return self.run(script).await;
            }
            Start::RuntimeError => return self.fail_to_start().await,
            Start::Never => self.term.cancelled().await,
            Start::MountFailure => {
                let message = "MountVolume.SetUp failed for volume \"os-release\" : hostPath type check failed: \
                               /etc/os-release is not a file";
                self.events().warning("", "FailedMount", message).await;
                self.term.cancelled().await;
            }
            Start::ConfigError => {
                let message = "secret \"credentials\" not found";
                self.pulled().await;
                self.warning("Failed", &format!("Error: {message}")).await;
                self.wait_to_start("CreateContainerConfigError", message).await;
            }
            Start::InvalidImageName => {
                let message = format!(
                    "Failed to apply default image tag {image:?}: couldn't parse image name {image:?}: invalid \
                     reference format"
                );
                self.warning("InspectFailed", &message).await;
                self.warning("Failed", "Error: InvalidImageName").await;
                self.wait_to_start("InvalidImageName", &message).await;
            }
            Start::NoSuchImage => self.fail_to_pull().await,
        }
        never_started()
    }

    async fn fail_to_pull(&self) {
        let image = self.image();
        let cause = format!(
            "failed to pull and unpack image {image:?}: failed to resolve reference {image:?}: {image}: not found"
        );
        self.normal("Pulling", &format!("Pulling image {image:?}")).await;
        self.warning("Failed", &format!("Failed to pull image {image:?}: {cause}")).await;
        self.warning("Failed", "Error: ErrImagePull").await;
        self.enter(ContainerState::waiting("ErrImagePull", &cause));
        self.log.waits("trying and failing to pull image");
        sleep(std::time::Duration::from_millis(300)).await;
        let back_off = format!("Back-off pulling image {image:?}");
        self.normal("BackOff", &back_off).await;
        self.warning("Failed", "Error: ImagePullBackOff").await;
        self.enter(ContainerState::waiting("ImagePullBackOff", &format!("{back_off}: ErrImagePull: {cause}")));
        self.term.cancelled().await;
    }

    async fn fail_to_start(&self) -> Termination {
        let message = "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc \
                       create failed: unable to start container process: error during container init: exec: \
                       \"aicr\": executable file not found in $PATH: unknown";
        self.pulled().await;
        self.normal("Created", &format!("Created container: {}", self.container.name)).await;
        self.warning("Failed", &format!("Error: {message}")).await;
        Termination { message: message.to_owned(), ..ended(128, "StartError", None) }
    }

    async fn run(&self, script: &Script) -> Termination {
        self.pulled().await;
        let name = &self.container.name;
        self.normal("Created", &format!("Created container: {name}")).await;
        let since = Timestamp::now();
        self.log.runs();
        self.enter(ContainerState::Running { since });
        self.normal("Started", &format!("Started container {name}")).await;
        tokio::select! {
            end = self.process(script, since) => end,
            end = self.terminated(script, since) => end,
        }
    }

    /// The process by itself.
    async fn process(&self, script: &Script, since: Timestamp) -> Termination {
        let code = match self.work(script).await {
            Ok(()) => match script.end {
                End::Exit(code) => code,
                End::OutOfMemory => return ended(KILLED, "OOMKilled", Some(since)),
                End::Never => std::future::pending().await,
                End::Evicted => {
                    let message = "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, \
                                   available: 9Gi. ";
                    self.events().warning("", "Evicted", message).await;
                    return Termination { evicted: Some(message.to_owned()), ..ended(KILLED, "Error", Some(since)) };
                }
            },
            Err(line) => {
                self.log.line(line);
                1
            }
        };
        ended(code, if code == 0 { "Completed" } else { "Error" }, Some(since))
    }

    async fn work(&self, script: &Script) -> Result<(), String> {
        let agent = match script.write {
            Some(_) => Some(Agent::start(&self.cluster, &self.pod, &self.container).await?),
            None => None,
        };
        self.log.line("collecting the configuration of the node");
        if let Some(agent) = &agent {
            agent.read().await?;
        }
        for step in &script.steps {
            match step {
                Step::Sleep(pause) => sleep(*pause).await,
                Step::Text(text) => self.log.text(text.clone()),
                Step::Lines { count, pause } => {
                    for number in 1..=*count {
                        self.log.line(format_args!("line {number} of {count}"));
                        if !pause.is_zero() {
                            sleep(*pause).await;
                        }
                    }
                }
            }
        }
        if let (Some(agent), Some(content)) = (agent, script.write) {
            self.write(&agent, content).await?;
        }
        if let End::Exit(code @ 1..) = script.end {
            self.log.line(format_args!("error: collector failed, exit code {code}"));
        }
        Ok(())
    }

    async fn write(&self, agent: &Agent, content: Content) -> Result<(), String> {
        let document = agent.document(content);
        self.cluster.wrote(&self.pod, &document);
        agent.write(content, &document).await?;
        self.log.line(format_args!("snapshot written to {}", agent.target()));
        Ok(())
    }

    /// The process when it is told to stop.
    async fn terminated(&self, script: &Script, since: Timestamp) -> Termination {
        self.term.cancelled().await;
        self.normal("Killing", &format!("Stopping container {}", self.container.name)).await;
        match script.on_term {
            OnTerm::Exit => ended(TERMINATED, "Error", Some(since)),
            OnTerm::Ignore => std::future::pending().await,
            OnTerm::WriteAfter(pause) => {
                sleep(pause).await;
                let written = async {
                    let agent = Agent::start(&self.cluster, &self.pod, &self.container).await?;
                    self.write(&agent, super::script::DOCUMENT).await
                };
                let code = match written.await {
                    Ok(()) => 0,
                    Err(line) => {
                        self.log.line(line);
                        1
                    }
                };
                ended(code, if code == 0 { "Completed" } else { "Error" }, Some(since))
            }
        }
    }

    async fn pulled(&self) {
        let image = self.image();
        self.normal("Pulled", &format!("Container image {image:?} already present on machine")).await;
    }

    async fn wait_to_start(&self, reason: &str, message: &str) {
        self.log.waits(reason);
        self.enter(ContainerState::waiting(reason, message));
        self.term.cancelled().await;
    }

    fn enter(&self, state: ContainerState) {
        // Nobody listens any more once the pod is gone.
        let _ = self.states.send((self.index, state));
    }

    async fn normal(&self, reason: &str, message: &str) {
        self.events().normal(&self.container.name, reason, message).await;
    }

    async fn warning(&self, reason: &str, message: &str) {
        self.events().warning(&self.container.name, reason, message).await;
    }

    fn events(&self) -> Events {
        Events::of_kubelet(self.cluster.client.clone(), &self.pod)
    }

    fn image(&self) -> &str {
        self.container.image.as_deref().unwrap_or_default()
    }
}

/// The end of a container whose process was killed.
pub(super) fn killed() -> Termination {
    ended(KILLED, "Error", None)
}

/// The end of a container that was deleted before it ran.
fn never_started() -> Termination {
    let message = "The container could not be located when the pod was terminated";
    Termination { message: message.to_owned(), ..ended(KILLED, "ContainerStatusUnknown", None) }
}

fn ended(code: i32, reason: &str, started: Option<Timestamp>) -> Termination {
    Termination {
        code,
        reason: reason.to_owned(),
        message: String::new(),
        started,
        finished: Timestamp::now(),
        evicted: None,
    }
}
