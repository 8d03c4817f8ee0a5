//! How long ago something happened, as kubectl writes it.

use jiff::SignedDuration;

/// `45s`, `3m20s`, `75m`, `5h12m`, `30h`, `3d4h`, `90d`, `2y30d`: two units while the smaller one still matters.
pub(crate) fn age(elapsed: SignedDuration) -> String {
    // Clocks differ by a second or so; more than that is no age.
    let seconds = match elapsed.as_secs() {
        ..=-2 => return "<invalid>".to_owned(),
        seconds => seconds.max(0),
    };
    let (minutes, hours) = (seconds / 60, seconds / 3_600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}

fn two(large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    match small {
        0 => format!("{large}{large_unit}"),
        _ => format!("{large}{large_unit}{small}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r37_ages_read_as_kubectl_writes_them() {
        const DAY: i64 = 86_400;
        let cases = [
            (-30, "<invalid>"),
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (599, "9m59s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (18_720, "5h12m"),
            (8 * 3_600, "8h"),
            (47 * 3_600, "47h"),
            (2 * DAY, "2d"),
            (3 * DAY + 4 * 3_600, "3d4h"),
            (8 * DAY + 3_600, "8d"),
            (729 * DAY, "729d"),
            (760 * DAY, "2y30d"),
            (730 * DAY, "2y"),
            (8 * 365 * DAY, "8y"),
        ];
        for (seconds, expected) in cases {
            assert_eq!(age(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
    }
}
