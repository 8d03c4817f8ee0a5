//! The recording in the README: made from what the program really says on the test bed, and held against it.
//!
//! `UPDATE_RECORDING=1 cargo test --test it recording` makes it anew.

use std::{fmt::Write as _, fs, path::Path};

use crate::support::{
    bed::Bed,
    cli::{Home, Outcome},
};

/// What is shown, in this order.
const COMMANDS: [&str; 3] =
    ["kubectl aicr snapshot -n gpu-operator -o snapshot.yaml", "head -n 6 snapshot.yaml", "kubectl aicr orphans -A"];

#[tokio::test]
async fn the_recording_shows_what_the_program_says() {
    let bed = Bed::private().await;
    let home = Home::new().kubeconfig(&bed.kubeconfig(bed.admin(), None));
    home.program("kubectl", ["create", "namespace", "gpu-operator"]).run().await.code(0);
    home.program("kubectl", ["label", "namespace", "gpu-operator", "app.kubernetes.io/managed-by=Helm"])
        .run()
        .await
        .code(0);
    let mut lines = Vec::new();
    for command in COMMANDS {
        let mut words = command.split(' ');
        let outcome = home.program(words.next().unwrap(), words).run().await;
        outcome.code(0);
        lines.push(format!("$ {command}"));
        lines.extend(said(&outcome));
    }

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/recording.svg");
    if std::env::var_os("UPDATE_RECORDING").is_some() {
        fs::write(&file, drawing(&lines)).unwrap();
    }
    let recorded = fs::read_to_string(&file).unwrap();
    assert_eq!(
        comparable(&recorded),
        comparable(&drawing(&lines)),
        "docs/recording.svg is not what is said today: make it anew with UPDATE_RECORDING=1 cargo test --test it recording"
    );
}

/// Both outputs: stderr first, as a run says nothing on stdout before its end.
fn said(outcome: &Outcome) -> Vec<String> {
    [outcome.stderr(), outcome.stdout()].iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
}

/// The words of each line without what differs between runs: IDs, the order in which the API server answered, and what
/// was seen of a pod while it started.
fn comparable(svg: &str) -> Vec<String> {
    let mut lines: Vec<String> = svg.lines().filter(|line| line.starts_with("<text")).map(words).collect();
    lines.retain(|line| !line.starts_with("waiting "));
    lines.sort();
    lines
}

fn words(line: &str) -> String {
    let text = line.split_once('>').and_then(|(_, rest)| rest.strip_suffix("</text>")).unwrap();
    let differs = |word: &str| {
        let digits = word.chars().filter(char::is_ascii_hexdigit).count();
        word.len() > 30 && digits > 15
    };
    let masked = text.split(' ').filter(|word| !word.is_empty()).map(|word| {
        // A name ends in the run ID; a UID is an ID alone.
        let kept = word.find("-20").filter(|_| differs(word)).map_or("", |at| &word[..at]);
        if differs(word) { format!("{kept}…") } else { word.to_owned() }
    });
    masked.collect::<Vec<_>>().join(" ")
}

const WIDTH: f64 = 7.2;
const HEIGHT: usize = 17;
const MARGIN: usize = 14;

/// A terminal's window with these lines.
fn drawing(lines: &[String]) -> String {
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "a terminal has no 2^52 columns")]
    let width = (columns as f64).mul_add(WIDTH, 2.0 * MARGIN as f64).ceil();
    let height = lines.len() * HEIGHT + 2 * MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\" aria-label=\"kubectl aicr snapshot in a terminal\">\n\
         <style>text{{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#c9d1d9;white-space:pre}}\
         .typed{{fill:#7ee787;font-weight:bold}}.agent{{fill:#8b949e}}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#0d1117\"/>\n"
    );
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| !line.is_empty()) {
        let class = match line {
            line if line.starts_with("$ ") => " class=\"typed\"",
            line if line.starts_with("agent | ") => " class=\"agent\"",
            _ => "",
        };
        let y = MARGIN + (at + 1) * HEIGHT - 5;
        let text = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\"{class} xml:space=\"preserve\">{text}</text>").unwrap();
    }
    svg + "</svg>\n"
}
