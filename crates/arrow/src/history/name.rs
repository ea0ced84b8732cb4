//! What files are called: by the time of day, in UTC.

/// What all names end with.
const END: &str = "Z.parquet";
/// The length of a name.
const LENGTH: usize = "20261130T164458.000Z.parquet".len();

/// The name of what begins at a time, in milliseconds since 1970. In the order of names is the order of times.
pub(super) fn of(unix_ms: u64) -> String {
    // The last year with four digits, so that names are of one length.
    let unix_ms = unix_ms.min(253_402_300_799_999);
    let (days, ms) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = date(days);
    let (s, ms) = (ms / 1000, ms % 1000);
    let (hour, minute, second) = (s / 3600, s / 60 % 60, s % 60);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}.{ms:03}{END}")
}

/// Whether that is such a name: all others are somebody else's files.
pub(super) fn is_ours(name: &str) -> bool {
    let digits =
        |range: std::ops::Range<usize>| name.as_bytes()[range].iter().all(u8::is_ascii_digit);
    name.len() == LENGTH
        && name.is_ascii()
        && name.ends_with(END)
        && (&name[8..9], &name[15..16]) == ("T", ".")
        && digits(0..8)
        && digits(9..15)
        && digits(16..19)
}

/// The date of a day since 1970-01-01, by the Gregorian calendar: of 400 years, which have 146,097 days, each four have 1,461 and each hundred
/// 36,524. Years begin in March, so that the leap day is the last one.
fn date(days: u64) -> (u64, u64, u64) {
    // 719,468 days before 1970 is the first of March of year 0.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months, from March or August on, have 153 days.
    let month = (5 * day + 2) / 153;
    let of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (400 * era + year + next, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected names are those of `date --utc --date=@SECONDS`.
    #[test]
    fn names_are_utc() {
        for (unix_ms, name) in [
            (0, "19700101T000000.000Z.parquet"),
            (951_782_399_999, "20000228T235959.999Z.parquet"),
            (951_782_400_000, "20000229T000000.000Z.parquet"),
            (951_868_800_000, "20000301T000000.000Z.parquet"),
            (1_709_210_096_007, "20240229T123456.007Z.parquet"),
            (1_796_057_098_000, "20261130T164458.000Z.parquet"),
            (4_107_542_399_000, "21000228T235959.000Z.parquet"),
            (4_107_542_400_000, "21000301T000000.000Z.parquet"),
            (u64::MAX, "99991231T235959.999Z.parquet"),
        ] {
            assert_eq!(of(unix_ms), name);
            assert!(is_ours(name));
        }
    }

    /// Each day of 800 years follows the one before.
    #[test]
    fn days_follow_each_other() {
        let leap = |year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..800 * 366 {
            assert_eq!(date(days), (year, month, day));
            let last = match month {
                2 if leap(year) => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            (year, month, day) = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (month, day) if day == last => (year, month + 1, 1),
                (month, day) => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn what_is_somebody_elses() {
        for name in [
            "",
            "notes.txt",
            "20261130T164458Z.parquet",
            "20261130T164458.000Z.parquet~",
            ".20261130T164458.000Z.parquet",
            "2026113_T164458.000Z.parquet",
            "20261130t164458.000Z.parquet",
            "20261130T164458.\u{e9}0Z.parquet",
        ] {
            assert!(!is_ours(name), "{name}");
        }
    }
}
