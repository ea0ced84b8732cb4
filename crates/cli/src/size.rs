//! Sizes on the command line.

/// Units, in bytes; longer names come first.
const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// A whole number of bytes with its unit, such as 500MB or 2GiB; a megabyte at least.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "a size such as 500MB, 2GB or 1GiB".to_string();
    let unit = UNITS.iter().find_map(|&(name, unit)| Some((text.strip_suffix(name)?, unit)));
    let (number, unit) = unit.ok_or_else(wrong)?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number = number.parse::<u64>().ok().filter(|_| digits).ok_or_else(wrong)?;
    match number.checked_mul(unit) {
        None => Err("less than 2^64 bytes".to_string()),
        Some(0..1_000_000) => Err("a megabyte (1MB) at least".to_string()),
        Some(bytes) => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_size_and_what_is_none() {
        assert_eq!(bytes("500MB"), Ok(500_000_000));
        assert_eq!(bytes("2GiB"), Ok(2 << 30));
        assert_eq!(bytes("1000kB"), Ok(1_000_000));
        assert_eq!(bytes("1000000B"), Ok(1_000_000));
        for bad in
            ["", "5", "MB", "1.5GB", "-1GB", "+1GB", "1 GB", "999kB", "0GB", "99999999999TB", "1gb"]
        {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }
}
