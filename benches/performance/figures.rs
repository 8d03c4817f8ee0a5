//! What was measured, as Markdown.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use jiff::Zoned;

/// What was measured, in the order of the measuring.
#[derive(Default)]
pub(crate) struct Figures {
    summary: Vec<Line>,
    tables: Vec<Table>,
}

/// A line of the summary.
struct Line {
    what: String,
    figure: String,
    goal: Option<(String, bool)>,
    upstream: &'static str,
}

/// A table of its own below a title and a remark.
struct Table {
    title: &'static str,
    remark: &'static str,
    rows: Vec<Vec<String>>,
}

impl Figures {
    /// A figure without a goal.
    pub(crate) fn fact(&mut self, what: impl Into<String>, figure: impl Into<String>, upstream: &'static str) {
        self.summary.push(Line { what: what.into(), figure: figure.into(), goal: None, upstream });
    }

    /// A figure with a goal, whether that is met, and the figure of `aicr` 0.11.1 where it is known.
    pub(crate) fn goal(
        &mut self,
        what: impl Into<String>,
        figure: impl Into<String>,
        goal: impl Into<String>,
        met: bool,
        upstream: &'static str,
    ) {
        let goal = Some((goal.into(), met));
        self.summary.push(Line { what: what.into(), figure: figure.into(), goal, upstream });
    }

    /// A table whose first row is its header.
    pub(crate) fn table(&mut self, title: &'static str, remark: &'static str, rows: Vec<Vec<String>>) {
        self.tables.push(Table { title, remark, rows });
    }

    fn summary(&self) -> String {
        let header = ["", "figure", "goal", "met", "`aicr` 0.11.1"].map(str::to_owned).to_vec();
        let lines = self.summary.iter().map(|line| {
            let (goal, met) = match &line.goal {
                Some((goal, met)) => (goal.clone(), if *met { "yes" } else { "**no**" }),
                None => (String::new(), ""),
            };
            vec![line.what.clone(), line.figure.clone(), goal, met.to_owned(), line.upstream.to_owned()]
        });
        markdown(&std::iter::once(header).chain(lines).collect::<Vec<_>>())
    }

    fn tables(&self) -> String {
        let mut text = String::new();
        for Table { title, remark, rows } in &self.tables {
            let _ = write!(text, "\n### {title}\n\n{remark}\n\n{}", markdown(rows));
        }
        text
    }
}

/// Shows the figures. A whole run can also replace those in the documents.
pub(crate) fn publish(figures: &Figures, whole: bool) {
    let from = provenance();
    let summary = format!("{from}\n\n{}", figures.summary());
    println!("{summary}{}", figures.tables());
    if whole && std::env::var_os("UPDATE_FIGURES").is_some() {
        replace("README.md", &summary);
        replace("docs/performance.md", &format!("{summary}{}", figures.tables()));
    }
}

/// When and where the figures come from.
fn provenance() -> String {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().filter(|load| !load.is_empty()).map(|load| format!(", load {load} at the end"));
    format!(
        "From `cargo bench` on {}: {}, {} {}, {processors} processors{}.",
        Zoned::now().date(),
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
        load.unwrap_or_default()
    )
}

/// Puts a text between the two marks in a document.
fn replace(document: &str, text: &str) {
    const MARKS: [&str; 2] = ["<!-- figures: UPDATE_FIGURES=1 cargo bench -->\n", "<!-- end of figures -->\n"];
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let old = fs::read_to_string(&path).unwrap();
    let (before, rest) = old.split_once(MARKS[0]).unwrap_or_else(|| panic!("{document} has no place for figures"));
    let (_, after) = rest.split_once(MARKS[1]).unwrap_or_else(|| panic!("{document} has no end of figures"));
    fs::write(path, format!("{before}{}\n{text}\n{}{after}", MARKS[0], MARKS[1])).unwrap();
}

/// Columns that line up in plain text too.
fn markdown(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default().max(3);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &[String]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!(" {cell:<width$} "));
        format!("|{}|\n", cells.collect::<Vec<_>>().join("|"))
    };
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    let mut text = rows.first().map(|row| line(row)).unwrap_or_default() + &line(&rule);
    text.extend(rows.iter().skip(1).map(|row| line(row)));
    text
}

/// `1.5 MiB`.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", in_mebibytes(bytes))
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
pub(crate) fn in_mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// A header and rows of cells.
pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}
