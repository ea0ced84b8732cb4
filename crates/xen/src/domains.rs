//! What `xl list -l` says: domains with their configuration, as JSON.

use serde::Deserialize;

use crate::domain::Vif;
use crate::toolstack::DomainId;

/// A domain as its configuration has it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Configured {
    pub(crate) id: DomainId,
    pub(crate) name: String,
    pub(crate) kind: Option<String>,
    pub(crate) weight: Option<u32>,
    pub(crate) cap_percent: Option<u32>,
    pub(crate) vifs: Vec<Vif>,
}

#[derive(Deserialize)]
struct Listed {
    domid: DomainId,
    #[serde(default)]
    config: Config,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Config {
    c_info: Created,
    b_info: Built,
    nics: Vec<Nic>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Created {
    name: Option<String>,
    r#type: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Built {
    sched_params: Shares,
}

/// As they are now: `xl` asks the hypervisor.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Shares {
    weight: Option<i64>,
    cap: Option<i64>,
}

#[derive(Deserialize)]
struct Nic {
    #[serde(default)]
    devid: u32,
    mac: Option<String>,
    bridge: Option<String>,
}

/// Reads what `xl list -l` prints. Domains without a name, as one that is being made, are left out.
///
/// # Errors
/// That it is no such JSON, and where.
pub(crate) fn parse(text: &str) -> Result<Vec<Configured>, String> {
    let listed: Vec<Listed> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let domains = listed.into_iter().filter_map(|listed| {
        let (id, config) = (listed.domid, listed.config);
        let vifs = config.nics.into_iter().map(|nic| Vif {
            // libxl's name for it in the back end's domain, if the configuration gives no other.
            interface: format!("vif{id}.{}", nic.devid),
            mac: nic.mac,
            bridge: nic.bridge,
        });
        // -1 is libxl's word for what is not set.
        let number = |value: Option<i64>| value.and_then(|value| u32::try_from(value).ok());
        let shares = config.b_info.sched_params;
        Some(Configured {
            id,
            name: config.c_info.name?,
            kind: config.c_info.r#type,
            weight: number(shares.weight),
            cap_percent: number(shares.cap),
            vifs: vifs.collect(),
        })
    });
    Ok(domains.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a Xen 4.20 of Debian's: two PV guests with an interface each. `batch` was given this weight and cap while it ran.
    #[test]
    fn what_a_xen_says() {
        let domains = parse(include_str!("../data/list.json")).expect("it is one");
        let named = |name: &str| domains.iter().find(|d| d.name == name).expect("a domain");
        let (web, batch) = (named("web"), named("batch"));
        assert_eq!((web.id, batch.id, web.kind.as_deref()), (1, 2, Some("pv")));
        assert_eq!((web.weight, web.cap_percent), (Some(256), Some(0)));
        assert_eq!((batch.weight, batch.cap_percent), (Some(512), Some(80)));
        assert_eq!(web.vifs[0].interface, "vif1.0");
        assert_eq!(batch.vifs[0].mac.as_deref(), Some("00:16:3e:00:00:02"));
    }

    #[test]
    fn other_texts() {
        assert!(parse("").is_err() && parse("[{\"domid\": -1}]").is_err());
        assert!(parse("{}").is_err() && parse("[{\"domid\": 70000}]").is_err());
        assert_eq!(parse("[]").expect("none"), []);
        assert_eq!(parse("[{\"domid\": 3}]").expect("no name yet"), []);
        let none = "[{\"domid\": 3, \"config\": {\"c_info\": {\"name\": \"a\"}, \
                    \"b_info\": {\"sched_params\": {\"weight\": -1, \"cap\": 4294967296}}}}]";
        let none = parse(none).expect("odd numbers");
        assert_eq!((none[0].weight, none[0].cap_percent), (None, None));
        let odd = parse("[{\"domid\": 3, \"config\": {\"c_info\": {\"name\": \"a\\u001b[2Jb\"}}}]");
        assert_eq!(odd.expect("a name")[0].name, "a\x1b[2Jb");
    }
}
