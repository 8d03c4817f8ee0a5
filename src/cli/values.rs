//! Values of flags, read as the flags of upstream and of kubectl are. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Toleration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::agent::manifests::tolerate_everything;
use crate::agent::names;
use crate::duration;
use crate::error::Invalid;

/// `90s`, `1m30s`, `1h`; longer than zero.
pub(crate) fn duration(flag: &'static str, text: &str) -> Result<Duration, Invalid> {
    duration::parse(text)
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| Invalid::new(flag, text, "must be a duration longer than zero, such as 90s, 1m30s or 1h"))
}

/// How much is logged.
pub(crate) fn verbosity(text: &str) -> Result<u8, &'static str> {
    text.parse().map_err(|_| "must be a whole number from 0 to 255, such as 6")
}

/// A number of nodes; whether it is enough is for the configuration to say.
pub(crate) fn nodes(text: &str) -> Result<u32, &'static str> {
    text.parse().map_err(|_| "must be a whole number, such as 100")
}

/// `key=value:Effect`, `key:Effect` or `*`.
pub(crate) fn toleration(text: &str) -> Result<Toleration, Invalid> {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let invalid = |rule: &str| Invalid::new("--toleration", text, rule);
    if text == "*" {
        return Ok(tolerate_everything());
    }
    let (taint, effect) = text.rsplit_once(':').ok_or_else(|| invalid("must be key=value:Effect, key:Effect or *"))?;
    if !EFFECTS.contains(&effect) {
        return Err(invalid("its effect must be NoSchedule, PreferNoSchedule or NoExecute"));
    }
    let (key, value) = taint.split_once('=').map_or((taint, None), |(key, value)| (key, Some(value)));
    names::check_label_key(key).map_err(|rule| invalid(&format!("its key {rule}")))?;
    names::check_label_value(value.unwrap_or_default()).map_err(|rule| invalid(&format!("its value {rule}")))?;
    Ok(Toleration {
        key: Some(key.to_owned()),
        operator: Some(if value.is_some() { "Equal" } else { "Exists" }.to_owned()),
        value: value.map(str::to_owned),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    })
}

/// `key=value`, several separated by commas or given by several flags.
pub(crate) fn node_selector<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<BTreeMap<String, String>, Invalid> {
    pairs("--node-selector", "must be key=value", texts)
}

/// `cpu=1,memory=2Gi`: names of resources and Kubernetes quantities.
pub(crate) fn quantities<'a>(
    flag: &'static str,
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, Quantity>, Invalid> {
    const RULE: &str = "must be RESOURCE=QUANTITY, such as cpu=500m,memory=2Gi";
    pairs(flag, RULE, texts)?
        .into_iter()
        .map(|(name, quantity)| {
            let pair = format!("{name}={quantity}");
            names::check_label_key(&name)
                .map_err(|_| Invalid::new(flag, &pair, format!("{RULE}: {name:?} is no resource")))?;
            if !is_quantity(&quantity) {
                return Err(Invalid::new(flag, &pair, format!("{RULE}: {quantity:?} is no quantity")));
            }
            Ok((name, Quantity(quantity)))
        })
        .collect()
}

fn pairs<'a>(
    flag: &'static str,
    rule: &str,
    texts: impl IntoIterator<Item = &'a str>,
) -> Result<BTreeMap<String, String>, Invalid> {
    let mut pairs = BTreeMap::new();
    for text in texts {
        for pair in text.split(',') {
            let (key, value) = pair
                .split_once('=')
                .filter(|(key, _)| !key.is_empty())
                .ok_or_else(|| Invalid::new(flag, text, rule))?;
            if pairs.insert(key.to_owned(), value.to_owned()).is_some_and(|before| before != value) {
                return Err(Invalid::new(flag, text, format!("gives {key:?} two values")));
            }
        }
    }
    Ok(pairs)
}

/// The grammar of the API's quantities, without a sign: a decimal number, then a suffix or an exponent.
fn is_quantity(text: &str) -> bool {
    const SUFFIXES: [&str; 16] = ["", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let number_ok = number.bytes().any(|b| b.is_ascii_digit()) && number.matches('.').count() <= 1;
    let exponent = suffix.strip_prefix(['e', 'E']).filter(|exponent| !exponent.is_empty());
    let exponent_ok = exponent.is_some_and(|exponent| exponent.parse::<i32>().is_ok());
    number_ok && (SUFFIXES.contains(&suffix) || exponent_ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r8_tolerations_are_read_in_their_three_forms() {
        let equal = toleration("gpu=yes:NoSchedule").unwrap();
        assert_eq!(
            (equal.key.as_deref(), equal.operator.as_deref(), equal.value.as_deref(), equal.effect.as_deref()),
            (Some("gpu"), Some("Equal"), Some("yes"), Some("NoSchedule"))
        );
        let empty = toleration("gpu=:NoExecute").unwrap();
        assert_eq!((empty.operator.as_deref(), empty.value.as_deref()), (Some("Equal"), Some("")));
        let exists = toleration("nvidia.com/gpu:PreferNoSchedule").unwrap();
        assert_eq!((exists.operator.as_deref(), exists.value), (Some("Exists"), None));
        assert_eq!(toleration("*").unwrap(), tolerate_everything());
        for bad in ["", "gpu", "gpu=yes", ":NoSchedule", "=x:NoSchedule", "gpu:nosched", "gpu:", "a b:NoSchedule", "**"]
        {
            assert!(toleration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quantities_follow_the_api_grammar() {
        for good in ["1", "500m", "2Gi", "1.5", ".5", "1e3", "1E-3", "0", "12E", "100k"] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "Gi", "1gb", "1.2.3", "-1", "1 Gi", "e3", "1e", "one", "1KiB", "."] {
            assert!(!is_quantity(bad), "{bad}");
        }
        let both = quantities("--limits", ["cpu=2,memory=1Gi", "nvidia.com/gpu=1"]).unwrap();
        assert_eq!(both.keys().map(String::as_str).collect::<Vec<_>>(), ["cpu", "memory", "nvidia.com/gpu"]);
        for bad in ["cpu", "=1", "cpu=", "cpu=x", "cpu=1,", "cpu=1,cpu=2", "c p=1"] {
            assert!(quantities("--limits", [bad]).is_err(), "{bad}");
        }
    }
}
