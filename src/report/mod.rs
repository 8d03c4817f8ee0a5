//! The only place that makes text for people: tables, documents, cleaned lines.

pub(crate) mod age;
pub(crate) mod document;
pub(crate) mod orphans;
pub(crate) mod preflight;
pub(crate) mod progress;
pub(crate) mod run_report;
pub(crate) mod stderr;
pub(crate) mod summary;
pub(crate) mod table;
pub(crate) mod text;

/// Fails unless a page names every field of a document by its path, such as `a.b` or `a[].b`.
#[cfg(test)]
fn assert_documented(json: &serde_json::Value, page: &str) {
    fn walk(json: &serde_json::Value, prefix: &str, page: &str) {
        match json {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    let path = format!("{prefix}{name}");
                    let nested = matches!(value, serde_json::Value::Object(_));
                    assert!(nested || page.contains(&format!("`{path}`")), "{path} is not documented");
                    walk(value, &format!("{path}."), page);
                }
            }
            serde_json::Value::Array(items) => {
                for item in items {
                    walk(item, &format!("{}[].", prefix.trim_end_matches('.')), page);
                }
            }
            _ => {}
        }
    }
    walk(json, "", page);
}
