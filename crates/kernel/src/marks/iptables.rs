//! Rules of iptables, old and new, as the programs that save them print them.

use super::survey::{Survey, known};
use crate::Name;
use crate::tool;

/// Each prints all tables. What stands in nftables, the plain ones may print, or the `-nft-` ones.
const PROGRAMS: [&str; 6] = [
    "iptables-save",
    "ip6tables-save",
    "iptables-nft-save",
    "ip6tables-nft-save",
    "iptables-legacy-save",
    "ip6tables-legacy-save",
];

pub(super) fn read(survey: &mut Survey) {
    for program in PROGRAMS {
        match tool::output(program, &[]) {
            Ok(Some(text)) => parse(&text, survey),
            Ok(None) => {}
            Err(why) => survey.unread.push(why),
        }
    }
}

/// `*table`, then `-A CHAIN ...` for each rule.
fn parse(text: &str, survey: &mut Survey) {
    let mut table = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix('*') {
            table = name;
        } else if let Some(rule) = line.strip_prefix("-A ") {
            let words: Vec<&str> = rule.split_whitespace().collect();
            let Some(chain) = words.first() else { continue };
            let place = format!("iptables {}, chain {}", Name::new(table), Name::new(*chain));
            let jump = after(&words, "-j").unwrap_or_default();
            // A chain of theirs, or a rule that leads there.
            let who = match known(chain).or_else(|| known(jump)) {
                Some(who) => format!("{who} ({place})"),
                None => place,
            };
            survey.add(&who, bits(&words, jump));
        }
    }
}

/// The word behind this one.
fn after<'w>(words: &[&'w str], option: &str) -> Option<&'w str> {
    let at = words.iter().position(|word| *word == option)?;
    words.get(at + 1).copied()
}

/// The bits of a packet's mark that a rule looks at or sets (iptables-extensions(8)).
fn bits(words: &[&str], jump: &str) -> u32 {
    let mut bits = 0;
    // `-m mark --mark V[/M]`; connmark has an option of this name, too, for the connection's.
    for (i, word) in words.iter().enumerate() {
        let matched =
            words[..i].iter().rposition(|word| *word == "-m").and_then(|at| words.get(at + 1));
        if *word == "--mark" && matched == Some(&"mark") {
            bits |= words.get(i + 1).map_or(u32::MAX, |value| pair(value).1);
        }
    }
    let value = |option: &str| after(words, option).map(pair);
    match jump {
        "MARK" => {
            for option in ["--set-xmark", "--set-mark"] {
                // The bits of the mask are cleared, those of the value turned.
                bits |= value(option).map_or(0, |(value, mask)| value | mask);
            }
            bits |= value("--or-mark").map_or(0, |(value, _)| value);
            bits |= value("--xor-mark").map_or(0, |(value, _)| value);
            bits |= value("--and-mark").map_or(0, |(value, _)| !value);
        }
        "CONNMARK" if words.contains(&"--restore-mark") || words.contains(&"--save-mark") => {
            // Absent, a mask is all bits.
            bits |=
                value("--nfmask").or_else(|| value("--mask")).map_or(u32::MAX, |(mask, _)| mask);
        }
        "TPROXY" => bits |= value("--tproxy-mark").map_or(0, |(value, mask)| value | mask),
        _ => {}
    }
    bits
}

/// `V` or `V/M`. What is no number could be any.
fn pair(text: &str) -> (u32, u32) {
    let (value, mask) = text.split_once('/').unwrap_or((text, "0xffffffff"));
    (number(value), number(mask))
}

fn number(text: &str) -> u32 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rule: &str) -> u32 {
        let words: Vec<&str> = rule.split_whitespace().collect();
        bits(&words, after(&words, "-j").unwrap_or_default())
    }

    /// Forms that iptables-save prints, and others that the manual has.
    #[test]
    fn bits_of_rules() {
        for (rule, wanted) in [
            ("INPUT -p tcp -j ACCEPT", 0),
            ("INPUT -m mark --mark 0x40000/0xff0000 -j ACCEPT", 0x00ff_0000),
            ("INPUT -m mark ! --mark 0x4000/0x4000 -j RETURN", 0x4000),
            ("INPUT -m mark --mark 0x1 -j DROP", u32::MAX),
            ("X -j MARK --set-xmark 0x4000/0x4000", 0x4000),
            ("X -j MARK --set-xmark 0x4000/0x0", 0x4000),
            ("X -j MARK --set-xmark 0x0/0xf0000", 0x000f_0000),
            ("X -j MARK --set-xmark 0x5/0xffffffff", u32::MAX),
            ("X -j MARK --and-mark 0xffff00ff", 0xff00),
            ("X -j MARK --or-mark 0x8000", 0x8000),
            ("X -j CONNMARK --restore-mark --nfmask 0xff0000 --ctmask 0xff0000", 0x00ff_0000),
            ("X -j CONNMARK --save-mark", u32::MAX),
            ("X -j CONNMARK --set-xmark 0x1/0x1", 0),
            ("X -m connmark --mark 0x1/0x1 -j ACCEPT", 0),
            ("X -m mark --mark 0x2/0x2 -m connmark --mark 0x1/0x1 -j ACCEPT", 2),
            ("X -m connmark --mark 0x1/0x1 -m mark --mark 0x2/0x2 -j ACCEPT", 2),
            ("X -p tcp -j TPROXY --on-port 1 --on-ip 0.0.0.0 --tproxy-mark 0x200/0xf00", 0xf00),
            ("X -m mark --mark", u32::MAX),
            ("X -m mark --mark what", u32::MAX),
        ] {
            assert_eq!(of(rule), wanted, "{rule}");
        }
    }

    #[test]
    fn who_it_is() {
        let mut survey = Survey::default();
        let text = "*mangle\n:PREROUTING ACCEPT [0:0]\n\
            -A PREROUTING -j cali-PREROUTING -m mark --mark 0x10000/0x10000\n\
            -A cali-PREROUTING -m mark --mark 0x20000/0x20000 -j ACCEPT\nCOMMIT\n*nat\n\
            -A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000\n\
            -A a\u{1b}[2J -j MARK --set-xmark 0x1/0x1\n-A\n-A  \n";
        parse(text, &mut survey);
        let uses: Vec<String> = survey.uses.iter().map(ToString::to_string).collect();
        assert_eq!(
            uses,
            [
                "0x10000 by Calico (iptables mangle, chain PREROUTING)",
                "0x20000 by Calico (iptables mangle, chain cali-PREROUTING)",
                "0x4000 by kube-proxy (iptables nat, chain KUBE-MARK-MASQ)",
                "0x1 by iptables nat, chain a\\u{1b}[2J",
            ]
        );
    }
}
