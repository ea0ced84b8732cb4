//! Frequencies on the command line.

/// Units, in Hz.
const UNITS: [(&str, u64); 4] = [("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000), ("", 1)];

/// A frequency in whole Hz, as people write it: `2394452000`, `2394.452M`, `1.0G`, `2.4 GHz`.
///
/// # Errors
/// If it is none, zero, no whole number of Hz, or more than 64 bits hold.
pub(crate) fn hz(text: &str) -> Result<u64, String> {
    let wrong = || "a frequency such as 2394452000, 2394.452M, 1.0G or 2.4GHz".to_string();
    let bare = text.trim().trim_end_matches("Hz").trim_end();
    let (number, unit) = UNITS
        .iter()
        .find_map(|&(name, unit)| Some((bare.strip_suffix(name)?.trim_end(), unit)))
        .ok_or_else(wrong)?;
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err(wrong());
    }
    let part = part.trim_end_matches('0');
    // As many digits as the unit has zeros, or it is no whole number of Hz.
    let scale = 10u64.checked_pow(part.len() as u32).filter(|scale| unit % scale == 0);
    let scale = scale.ok_or("a whole number of Hz")?;
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().map_err(|_| wrong())? };
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(unit));
    let hz = whole.and_then(|whole| whole.checked_add(part * (unit / scale)));
    match hz {
        None => Err("less than 2^64 Hz".into()),
        Some(0) => Err("more than 0 Hz".into()),
        Some(hz) => Ok(hz),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_frequency_and_what_is_none() {
        for (text, is) in [
            ("2394452000", 2_394_452_000),
            ("2394.452M", 2_394_452_000),
            ("1.0G", 1_000_000_000),
            ("1G", 1_000_000_000),
            ("2.4 GHz", 2_400_000_000),
            ("2.4GHz", 2_400_000_000),
            ("0.000000001G", 1),
            ("1000.5kHz", 1_000_500),
            ("999", 999),
            ("50Hz", 50),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(hz(text), Ok(is), "{text}");
        }
        for bad in [
            "",
            "0",
            "0.0G",
            "G",
            ".5G",
            "1.G",
            "-1",
            "+1",
            "1e9",
            "1.0000000001G",
            "0.5",
            "1,0G",
            "2.4T",
            "1..0G",
            "18446744073709551616",
            "99999999999G",
            "1 2G",
            "1.0.0G",
            "Hz",
        ] {
            assert!(hz(bad).is_err(), "{bad}: {:?}", hz(bad));
        }
    }
}
