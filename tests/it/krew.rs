//! The plugin as krew's users get it: packaged, installed, run, upgraded and removed by the real krew, offline.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use crate::support::{
    built,
    cli::{Home, Invocation},
    scene::Scene,
};

const BINARY: &str = env!("CARGO_BIN_EXE_kubectl-aicr");

/// A machine with kubectl and krew but without the plugin.
struct Machine {
    home: Home,
    /// Serves what `krew/package` writes to `dist`.
    url: String,
}

impl Machine {
    async fn new(home: Home) -> Self {
        let tools = home.path().join("tools");
        fs::create_dir(&tools).unwrap();
        symlink(built::krew(), tools.join("kubectl-krew")).unwrap();
        symlink(built::krew(), tools.join("krew")).unwrap();
        symlink(built::kubectl(), tools.join("kubectl")).unwrap();
        let url = serve(home.path().join("dist")).await;
        Self { home, url }
    }

    fn program<'a>(&self, name: &str, args: impl IntoIterator<Item = &'a str>) -> Invocation {
        let root = self.home.path().join("krew");
        let path = format!("{}:{}:/usr/bin:/bin", root.join("bin").display(), self.home.path().join("tools").display());
        self.home.program(name, args).env("PATH", path).env("KREW_ROOT", root).env("KREW_NO_UPGRADE_CHECK", "1")
    }

    /// `kubectl …`, words separated by spaces.
    fn kubectl(&self, words: &str) -> Invocation {
        self.program("kubectl", words.split(' '))
    }

    /// `krew/package`, of whatever binaries.
    async fn package(&self, version: &str, binaries: &[String]) {
        package(&self.home, "dist", &["--version", version, "--url", &self.url], binaries).await;
    }

    fn installed(&self) -> PathBuf {
        self.home.path().join("krew/bin/kubectl-aicr")
    }
}

async fn package(home: &Home, out: &str, options: &[&str], binaries: &[String]) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/krew/package");
    let out = home.path().join(out);
    home.program(script, ["--out", out.to_str().unwrap()]).args(options).args(binaries).run().await.code(0);
}

/// The debug binary under the platform of this machine: a release build would cost minutes.
fn this_binary() -> String {
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    format!("{os}-{arch}={BINARY}")
}

/// Serves the files of a folder on loopback for as long as the test runs.
async fn serve(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let line = String::from_utf8_lossy(&request[..read]).into_owned();
            let name = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            let (status, body) =
                fs::read(folder.join(name)).map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            // A client that goes away sees to its own error.
            let _ = stream.write_all(&[head.as_bytes(), &body].concat()).await;
        }
    });
    url
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

async fn version(machine: &Machine) -> Value {
    machine.kubectl("aicr version -o json").run().await.code(0).stdout_json()
}

#[tokio::test]
async fn krew_installs_from_a_custom_index_runs_upgrades_and_uninstalls() {
    let scene = Scene::new("krew").await;
    let machine = Machine::new(scene.home.clone()).await;
    machine.package("v0.1.0", &[this_binary()]).await;
    let index = format!("file://{}", machine.home.path().join("dist/index").display());
    machine.kubectl(&format!("krew index add aicr {index}")).run().await.code(0);
    let found = machine.kubectl("krew search aicr").run().await;
    found.code(0).stdout_has("aicr/aicr").stdout_has("Capture the configuration of a GPU cluster ");

    machine.kubectl("krew install aicr/aicr").run().await.code(0).stderr_has("Installed plugin: aicr");
    assert_eq!(names(&machine.home.path().join("krew/store/aicr/v0.1.0")), ["LICENSE", "kubectl-aicr"]);
    assert!(version(&machine).await["clientVersion"].is_string());
    let image = "registry.test/aicr:success";
    let words = format!("aicr snapshot -n {} --image {image} --run-id {}", scene.namespace.name, scene.run_id);
    machine.kubectl(&words).run().await.code(0).stdout_is(&scene.document());
    scene.assert_clean().await;

    // The shim goes beside the link on PATH, not into the store, which an upgrade leaves behind.
    let shim = machine.home.path().join("krew/bin/kubectl_complete-aicr");
    let install = machine.kubectl("aicr completion kubectl --install").run().await;
    install.code(0).stderr_has(&format!("wrote {}", shim.display()));

    machine.package("v0.1.1", &[this_binary()]).await;
    machine.kubectl("krew update").run().await.code(0);
    machine.kubectl("krew upgrade aicr").run().await.code(0);
    machine.kubectl("krew list").run().await.code(0).stdout_is("aicr/aicr\n");
    assert_eq!(names(&machine.home.path().join("krew/store/aicr")), ["v0.1.1"]);
    assert!(version(&machine).await["clientVersion"].is_string());
    machine.program("kubectl", ["__complete", "aicr", "snap"]).run().await.code(0).stdout_has("snapshot\t");

    machine.kubectl("krew uninstall aicr").run().await.code(0);
    assert!(!machine.installed().exists());
    machine.kubectl("aicr version").run().await.code(1).stderr_has("unknown command");
}

#[tokio::test]
async fn krew_installs_from_a_manifest_and_an_archive() {
    let machine = Machine::new(Home::new()).await;
    package(&machine.home, "elsewhere", &[], &[this_binary()]).await;
    let folder = machine.home.path().join("elsewhere");
    let archive = names(&folder).into_iter().find(|name| name.ends_with(".tar.gz")).unwrap();
    let (manifest, archive) = (folder.join("aicr.yaml"), folder.join(archive));
    let install = format!("krew install --manifest={} --archive={}", manifest.display(), archive.display());
    machine.kubectl(&install).run().await.code(0).stderr_has("Caveats").stderr_has("completion kubectl --install");
    assert!(version(&machine).await["clientVersion"].is_string());

    // As the documentation says: krew manages only with an index what it installs without one.
    machine.kubectl("krew uninstall aicr").run().await.code(1).stderr_has("index is not initialized");
    let index = folder.join("index");
    machine.kubectl(&format!("krew index add aicr file://{}", index.display())).run().await.code(0);
    machine.kubectl("krew list").run().await.code(0).stdout_has("aicr");
    machine.kubectl("krew uninstall aicr").run().await.code(0);
    assert!(!machine.installed().exists());
}

#[tokio::test]
async fn krews_own_rules_accept_the_manifest_of_every_platform_and_install_each() {
    let machine = Machine::new(Home::new()).await;
    let stand_in = machine.home.write("stand-in", "any file does: krew does not run it\n");
    let platforms = ["linux", "darwin", "windows"].map(|os| ["amd64", "arm64"].map(|arch| format!("{os}-{arch}")));
    let binaries: Vec<String> =
        platforms.iter().flatten().map(|platform| format!("{platform}={}", stand_in.display())).collect();
    machine.package("v1.2.3-rc.1", &binaries).await;
    let manifest = machine.home.path().join("dist/aicr.yaml");
    let validator = built::krew_validator();
    let judged = machine.program(validator.to_str().unwrap(), ["-manifest", manifest.to_str().unwrap()]).run().await;
    judged.code(0).stderr_has("all 6 spec.platforms installed fine");

    let manifest: Value = serde_saphyr::from_str(&machine.home.read("dist/aicr.yaml")).unwrap();
    let spec = &manifest["spec"];
    // What the validator does not look at but krew's reviewers and tables do.
    assert!(spec["shortDescription"].as_str().unwrap().chars().count() <= 50);
    for platform in spec["platforms"].as_array().unwrap() {
        let windows = platform["selector"]["matchLabels"]["os"] == "windows";
        assert_eq!(platform["bin"], if windows { "kubectl-aicr.exe" } else { "kubectl-aicr" });
    }
}

#[tokio::test]
async fn an_archive_holds_binary_and_licence_and_is_the_same_for_the_same_binary() {
    let home = Home::new();
    let program = home.write("program", "binary\n");
    let binaries = [format!("linux-amd64={}", program.display())];
    package(&home, "first", &[], &binaries).await;
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    fs::File::options().append(true).open(&program).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    package(&home, "second", &[], &binaries).await;
    assert_eq!(home.read("first/SHA256SUMS"), home.read("second/SHA256SUMS"));

    let sums = home.read("first/SHA256SUMS");
    let (sum, archive) = sums.trim().split_once("  ").unwrap();
    assert!(sum.len() == 64 && sum.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')), "{sum}");
    assert!(home.read("first/aicr.yaml").contains(&format!("sha256: {sum}\n")));
    let listed = home.program("tar", ["-tzvf", archive]).cwd(home.path().join("first")).run().await;
    let modes: Vec<String> = listed.stdout().lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(modes, ["-rw-r--r--", "-rwxr-xr-x"], "{listed}");
    listed.code(0).stdout_has(" LICENSE\n").stdout_has(" kubectl-aicr\n");
}

#[tokio::test]
async fn krew_package_refuses_what_krew_would_refuse() {
    let home = Home::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/krew/package");
    let out = home.path().join("dist");
    for (arguments, problem) in [
        (["--version", "1.2", "linux-amd64=x"], "is no version"),
        (["--nothing", "x", "linux-amd64=x"], "unknown option --nothing"),
        (["--version", "v1.2.3", "linux-riscv=/bin/sh"], "no OS-ARCH=BINARY"),
        (["--version", "v1.2.3", "linux-amd64=missing"], "no OS-ARCH=BINARY"),
    ] {
        let run = home.program(script, ["--out", out.to_str().unwrap()]).args(arguments).run().await;
        run.code(1).stderr_has(problem);
    }
    assert!(!out.join("aicr.yaml").exists());
}
