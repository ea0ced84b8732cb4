//! Single cases and links of a network: what can be asked for, and what comes of it.
//! That tshark reads the frames as they were sent is tested in `lowtail-net`.

use crate::perfetto::QUEUES;
use crate::{Place, TINY};

/// The claims of two cases, of which one will run.
const CLAIMS: &str = r#"
[[claim]]
case = "one/ping"
metric = "count"
at_least = 1
[[claim]]
case = "two/ping"
metric = "count"
at_least = 1
[[claim]]
id = "both"
ascending = ["one/ping", "two/ping"]
metric = "p50"
"#;

fn place() -> Place {
    let place = Place::new();
    let rows = QUEUES.replace("[[case]]", "[[case]]\nrows = [\"bulk\", \"ping\"]");
    place.write("q.toml", rows + CLAIMS).write("tiny.toml", TINY);
    place
}

#[test]
fn claims_about_cases_that_did_not_run_are_not_judged() {
    let place = place();
    let ran = place.run(["lab", "run", "q.toml", "--case", "two", "--no-report", "--json"]);
    let json = ran.expect(0, &[]).json();
    let experiment = &json["experiments"][0];
    let ids = |key: &str| -> Vec<String> {
        let list = experiment[key].as_array().unwrap();
        list.iter().map(|claim| claim["id"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(
        (ids("claims"), ids("out_of_scope")),
        (
            vec!["two/ping/count".to_string()],
            vec!["one/ping/count".to_string(), "both".to_string()]
        )
    );
    assert_eq!(experiment["out_of_scope"][0]["tolerance"], "not run: at least 1");
    let rows = experiment["rows"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["case"].as_str().unwrap().starts_with("two")), "{rows:?}");
    // The command repeats it.
    assert_eq!(experiment["command"], "lowtail lab run q.toml --seed 3 --case two");
}

/// A list of transfers from a file beside the scenario, and when each was complete; what is wrong is told with the line.
#[test]
fn a_list_of_transfers_is_played() {
    let place = Place::new();
    let scenario = "title = 'A list'\nduration = '1s'\n[network]\n\
        topology = { kind = 'star', hosts = ['A', 'B', '=C'] }\n\
        link = { rate = '1Gbit/s', delay = '5us' }\n[traffic.list]\nflows = 'flows.csv'\n";
    place.write("list.toml", scenario);
    let head = "start_us,source,destination,bytes\n";
    place.write("flows.csv", format!("{head}100,A,B,1448\n2e9,B,A,5\n0,\"=C\",B,1\n"));
    place
        .line("lab run list.toml --no-report --completions done.csv")
        .expect(0, &["completion times: done.csv\n"]);
    let done = std::fs::read_to_string(place.path("done.csv")).unwrap();
    let lines: Vec<&str> = done.lines().collect();
    assert_eq!(lines[0], "case,traffic,start_us,source,destination,bytes,completion_us");
    // SYN and SYN, ACK of 98 bytes on the wire, an ACK of 90, and the data of 1538: 8 ns a byte, two links each but for the ACK.
    let us = 6.0 * 5.0 + (4.0 * 98.0 + 90.0 + 2.0 * 1538.0) * 0.008;
    assert_eq!(lines[2], format!("run,list,100.000,A,B,1448,{us:.3}"));
    assert!(lines[1].starts_with("run,list,0.000,=C,B,1,"), "{done}");
    assert_eq!(lines[3], "run,list,2000000000.000,B,A,5,");
    for (line, says) in [("0,A,D,1", "no end is called `D`"), ("0,A,B,x", "invalid digit")] {
        place.write("flows.csv", format!("{head}{line}\n"));
        let says = format!("list.toml:7:9: `flows.csv`, line 2: {says}");
        place.line("lab run list.toml --no-report").expect(3, &[&says]);
    }
    std::fs::remove_file(place.path("flows.csv")).unwrap();
    place.line("lab run list.toml --no-report").expect(3, &["list.toml:7:9: ", "flows.csv"]);
    place.write("list.toml", format!("{scenario}from = 'A'\n"));
    place.line("lab run list.toml --no-report").expect(3, &["`flows` says who sends what"]);
    place.line("lab run q --no-report --completions x").expect(2, &["no experiment is called `q`"]);
    place
        .line("lab run switch-queue --no-report --completions x")
        .expect(2, &["there is no list of transfers (`flows`)"]);
}

#[test]
fn frames_are_written() {
    let place = place();
    let ran = place.line("lab run q.toml --case two --no-report --pcap f.pcapng --pcap-frames 10");
    ran.expect(0, &["20 frames on A, to:A, and ", "later ones not written", ": f.pcapng\n"]);
    let file = std::fs::read(place.path("f.pcapng")).unwrap();
    let has = |text: &str| file.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("q, case two, seed 3") && has("from the switch to A"));
    // The same bytes every time, and other links if they are asked for.
    place.line("lab run q.toml --case two --no-report --pcap g --pcap-frames 10 -q").expect(0, &[]);
    assert!(file == std::fs::read(place.path("g")).unwrap());
    place
        .line("lab run q.toml --case two --no-report --pcap h --link to:C")
        .expect(0, &[" on to:C: h\n"]);
}

#[test]
fn what_does_not_fit_is_said() {
    let place = place();
    for (line, words) in [
        ("q.toml --pcap f", "--pcap writes the frames of one case; give --case: `two`, `one`"),
        ("q.toml --case tow", "no case is called `tow`; did you mean `two`?"),
        ("q.toml --case two --pcap f --link to:D", "no host is called `D`"),
        ("q.toml --case two --pcap f --link up:0", "no link is called `up:0`: there is one switch"),
        ("q.toml --link A", "--link says where to look; give --pcap FILE or --perfetto FILE"),
        ("tiny.toml --pcap f", "--pcap: there are no links, since there is no `[network]`"),
        ("tiny.toml q.toml --case two", "--case chooses among the cases of one experiment"),
    ] {
        let ran = place.line(&format!("lab run {line} --no-report"));
        ran.expect(2, &[words]);
    }
    assert_eq!(place.names(), ["q.toml", "tiny.toml"]);
}

/// A picture of the one topology, and a map of who sends to whom for each case.
#[test]
fn the_report_shows_the_network() {
    let place = place();
    place.line("lab run q.toml --report r.html -q");
    let html = std::fs::read_to_string(place.path("r.html")).unwrap();
    assert_eq!(html.matches("<figure class=\"topology\">").count(), 1);
    assert_eq!(html.matches("<figure class=\"matrix\">").count(), 2);
    assert!(html.contains("3 hosts at one switch, links of 100 Mbit/s"));
    // Whoever is alone gets what is left of 100 Mbit/s: 1448 of 1538 bytes, acknowledgements
    // do not go the same way; the pings of 5 ms take little.
    let alone = html.rsplit("A to C: ").next().unwrap().split(' ').next().unwrap();
    let alone: f64 = alone.parse().unwrap();
    assert!((85.0..=94.2).contains(&alone), "{alone}");
}
