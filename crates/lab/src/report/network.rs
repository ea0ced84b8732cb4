//! What a network looks like: hosts, switches by layer, and links with their rates. Of what
//! is large, pods and counts are drawn.

use std::fmt::Write as _;

use lowtail_net::{Clos, Shape};

use super::svg::{cut, escape, px};
use crate::network::outcome::NetworkOutcome;
use crate::outcome::Outcome;

const WIDTH: f64 = 1000.0;
const HIGH: f64 = 30.0;
/// More hosts or switches than this in a row are not drawn one by one.
const ROW_MAX: u32 = 16;
/// And more pods.
const PODS_MAX: u32 = 5;

/// A picture of each topology that cases have.
pub(super) fn pictures(outcome: &Outcome) -> String {
    let mut seen: Vec<(&NetworkOutcome, Vec<&str>)> = Vec::new();
    for case in &outcome.cases {
        let Some(network) = &case.network else { continue };
        match seen.iter_mut().find(|(known, _)| known.looks_like(network)) {
            Some((_, cases)) => cases.push(&case.name),
            None => seen.push((network, vec![&case.name])),
        }
    }
    if seen.is_empty() {
        return String::new();
    }
    let mut out = "<h3>Network</h3>\n".to_string();
    let alone = seen.len() == 1;
    for (network, cases) in seen.iter().take(8) {
        let cases = match (alone, cases.len()) {
            (true, _) => String::new(),
            (false, 1) => format!(" Case {}.", cases[0]),
            (false, n) => format!(" {} and {} more cases.", cases[0], n - 1),
        };
        out += &picture(network, &cases);
    }
    out
}

/// A drawing in the making: links below boxes.
#[derive(Default)]
struct Drawing {
    links: String,
    boxes: String,
    height: f64,
}

impl Drawing {
    /// A box around `x`, from `y` downwards.
    fn node(&mut self, x: f64, y: f64, width: f64, class: &str, text: &str) {
        let chars = (width / 7.0).max(1.0) as usize;
        let _ = writeln!(
            self.boxes,
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{HIGH}\" rx=\"4\"/>\
             <text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            px(x - width / 2.0),
            px(y),
            px(width),
            px(x),
            px(y + HIGH / 2.0 + 4.0),
            escape(&cut(text, chars))
        );
        self.height = self.height.max(y + HIGH + 8.0);
    }

    fn link(&mut self, from: (f64, f64), to: (f64, f64)) {
        let _ = writeln!(
            self.links,
            "<line class=\"axis\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>",
            px(from.0),
            px(from.1),
            px(to.0),
            px(to.1)
        );
    }

    fn words(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let _ = writeln!(
            self.boxes,
            "<text class=\"dim\" x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
            px(x),
            px(y),
            escape(text)
        );
    }

    /// Hosts side by side between `left` and `right`, below the switch at `above`.
    fn machines(
        &mut self,
        names: &Names<'_>,
        range: (u32, u32),
        left: f64,
        right: f64,
        y: f64,
        above: (f64, f64),
    ) {
        let n = range.1 - range.0;
        if n > ROW_MAX {
            let x = (left + right) / 2.0;
            self.link(above, (x, y));
            self.node(x, y, (right - left - 12.0).min(160.0), MACHINE, &format!("{n} hosts"));
            return;
        }
        let step = (right - left) / f64::from(n);
        for i in 0..n {
            let x = left + step * (f64::from(i) + 0.5);
            self.link(above, (x, y));
            self.node(x, y, (step - 6.0).clamp(14.0, 110.0), MACHINE, &names.of(range.0 + i));
        }
    }
}

const SWITCH: &str = "lane axis";
const MACHINE: &str = "machine";

/// Names of hosts, which large networks do not keep.
struct Names<'n>(&'n [String]);

impl Names<'_> {
    fn of(&self, machine: u32) -> String {
        self.0.get(machine as usize).cloned().unwrap_or_else(|| machine.to_string())
    }
}

fn picture(network: &NetworkOutcome, cases: &str) -> String {
    let mut drawing = Drawing::default();
    let names = Names(&network.machines);
    let middle = WIDTH / 2.0;
    let what = match network.shape {
        Shape::Star { hosts } => {
            drawing.node(middle, 8.0, 110.0, SWITCH, "switch");
            let above = (middle, 8.0 + HIGH);
            drawing.machines(&names, (0, hosts), 0.0, WIDTH, 120.0, above);
            drawing.words(middle + 64.0, 28.0, "start", &network.link);
            format!("{hosts} hosts at one switch, links of {}", network.link)
        }
        Shape::Dumbbell { left, right } => {
            let (a, b) = (middle / 2.0, middle * 1.5);
            drawing.link((a, 8.0 + HIGH / 2.0), (b, 8.0 + HIGH / 2.0));
            drawing.words(middle, 18.0, "middle", &network.fabric);
            drawing.node(a, 8.0, 110.0, SWITCH, "switch");
            drawing.node(b, 8.0, 110.0, SWITCH, "switch");
            let y = 8.0 + HIGH;
            drawing.machines(&names, (0, left), 0.0, middle - 10.0, 120.0, (a, y));
            drawing.machines(&names, (left, left + right), middle + 10.0, WIDTH, 120.0, (b, y));
            format!(
                "{left} and {right} hosts at two switches, links of {} and {} between",
                network.link, network.fabric
            )
        }
        Shape::Links { links } => {
            drawing.node(middle, 8.0, 110.0, MACHINE, &names.of(0));
            let above = (middle, 8.0 + HIGH);
            drawing.machines(&names, (1, 1 + links), 0.0, WIDTH, 120.0, above);
            drawing.words(middle + 64.0, 28.0, "start", &network.link);
            format!("a host and {links} others, links of {}", network.link)
        }
        Shape::Clos(clos) => {
            tree(&mut drawing, &clos, &names, network);
            format!(
                "{} hosts in {} pods of {} edge and {} aggregation switches, {} core switches; \
                 links of {}, {} between switches",
                network.shape.hosts(),
                clos.pods,
                clos.edges,
                clos.aggregations,
                clos.cores,
                network.link,
                network.fabric
            )
        }
    };
    format!(
        "<figure class=\"topology\"><svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{}\">\n{}{}</svg>\
         <figcaption>{}.{}</figcaption></figure>\n",
        px(drawing.height),
        escape(&what),
        drawing.links,
        drawing.boxes,
        escape(&what),
        escape(cases)
    )
}

/// Three layers of switches above the hosts; pods as boxes with counts if there are many.
fn tree(drawing: &mut Drawing, clos: &Clos, names: &Names<'_>, network: &NetworkOutcome) {
    let (core_y, agg_y, edge_y, host_y) = (8.0, 100.0, 190.0, 280.0);
    let row = |n: u32, i: u32, left: f64, right: f64| {
        left + (right - left) / f64::from(n) * (f64::from(i) + 0.5)
    };
    let small = clos.pods * clos.edges * clos.hosts <= ROW_MAX
        && clos.pods * clos.aggregations <= ROW_MAX
        && clos.cores <= ROW_MAX;
    let width = |n: u32| (WIDTH / f64::from(n) - 8.0).clamp(14.0, 90.0);
    if small {
        for core in 0..clos.cores {
            let x = row(clos.cores, core, 0.0, WIDTH);
            let agg = core / (clos.cores / clos.aggregations);
            for pod in 0..clos.pods {
                let below =
                    row(clos.pods * clos.aggregations, pod * clos.aggregations + agg, 0.0, WIDTH);
                drawing.link((x, core_y + HIGH), (below, agg_y));
            }
            drawing.node(x, core_y, width(clos.cores), SWITCH, "core");
        }
        for pod in 0..clos.pods {
            for agg in 0..clos.aggregations {
                let n = clos.pods * clos.aggregations;
                let x = row(n, pod * clos.aggregations + agg, 0.0, WIDTH);
                for edge in 0..clos.edges {
                    let below = row(clos.pods * clos.edges, pod * clos.edges + edge, 0.0, WIDTH);
                    drawing.link((x, agg_y + HIGH), (below, edge_y));
                }
                drawing.node(x, agg_y, width(n), SWITCH, "aggr.");
            }
        }
        let n = clos.pods * clos.edges;
        for edge in 0..n {
            let (x, step) = (row(n, edge, 0.0, WIDTH), WIDTH / f64::from(n));
            let range = (edge * clos.hosts, (edge + 1) * clos.hosts);
            let (left, right) = (x - step / 2.0, x + step / 2.0);
            drawing.machines(names, range, left, right, host_y, (x, edge_y + HIGH));
            drawing.node(x, edge_y, width(n), SWITCH, "edge");
        }
        return;
    }
    let shown = if clos.pods > PODS_MAX { PODS_MAX - 1 } else { clos.pods };
    let columns = if clos.pods > PODS_MAX { PODS_MAX } else { clos.pods };
    let step = WIDTH / f64::from(columns);
    let middle = WIDTH / 2.0;
    for pod in 0..shown {
        let x = row(columns, pod, 0.0, WIDTH);
        let _ = writeln!(
            drawing.links,
            "<rect class=\"pod\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"6\"/>",
            px(x - step / 2.0 + 4.0),
            px(agg_y - 24.0),
            px(step - 8.0),
            px(host_y - agg_y + HIGH + 32.0)
        );
        drawing.link((middle, core_y + HIGH), (x, agg_y));
        drawing.link((x, agg_y + HIGH), (x, edge_y));
        drawing.link((x, edge_y + HIGH), (x, host_y));
        let wide = step - 24.0;
        drawing.words(x - step / 2.0 + 10.0, agg_y - 10.0, "start", &format!("pod {pod}"));
        drawing.node(x, agg_y, wide, SWITCH, &format!("{} aggregation", clos.aggregations));
        drawing.node(x, edge_y, wide, SWITCH, &format!("{} edge", clos.edges));
        let machines = clos.edges * clos.hosts;
        drawing.node(x, host_y, wide, MACHINE, &format!("{machines} hosts"));
        let all = |n: u32, rate: &str| format!("{n} x {rate}");
        drawing.words(
            x + 6.0,
            edge_y - 26.0,
            "start",
            &all(clos.edges * clos.aggregations, &network.fabric),
        );
        drawing.words(x + 6.0, host_y - 26.0, "start", &all(machines, &network.link));
    }
    if shown < clos.pods {
        let x = row(columns, shown, 0.0, WIDTH);
        drawing.words(x, edge_y + 19.0, "middle", &format!("and {} more pods", clos.pods - shown));
    }
    drawing.height = drawing.height.max(host_y + HIGH + 16.0);
    let up =
        format!("{} core switches; {} x {} to each pod", clos.cores, clos.cores, network.fabric);
    drawing.node(middle, core_y, 420.0, SWITCH, &up);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn boxes(shape: Shape) -> usize {
        let network = NetworkOutcome {
            shape,
            machines: Vec::new(),
            link: "1 Gbit/s".to_string(),
            fabric: "10 Gbit/s".to_string(),
            matrix: crate::network::outcome::Matrix::default(),
        };
        picture(&network, "").matches("<rect").count()
    }

    /// What is small is drawn in full: switches and hosts; of large ones a few boxes are.
    #[test]
    fn a_box_for_each_or_for_many() {
        assert_eq!(boxes(Shape::Star { hosts: 5 }), 1 + 5);
        assert_eq!(boxes(Shape::Star { hosts: 500 }), 1 + 1);
        assert_eq!(boxes(Shape::Dumbbell { left: 2, right: 30 }), 2 + 2 + 1);
        // A fat-tree of 4 ports: 4 core, 8 aggregation, 8 edge switches, 16 hosts.
        assert_eq!(boxes(Shape::Clos(Clos::fat_tree(4))), 4 + 8 + 8 + 16);
        // Of 8 pods four: each one around three; and the core.
        assert_eq!(boxes(Shape::Clos(Clos::fat_tree(8))), 4 * 4 + 1);
    }
}
