//! A problem of which all points are known.

use lowtail_predict::Goal;
use lowtail_tune::{
    Effort, Error, Measured, Options, Parameter, Point, Problem, Run, VmMeasured, tune,
};

/// `help` from 0 to 1 shortens a latency of 1100 us to 100 us, and costs `0.3 help^2` of the work. `harm` only costs, `idle` does nothing.
struct Known {
    goals: Vec<Goal>,
    parameters: Vec<Parameter>,
    /// Figures vary by this part from seed to seed.
    noise: f64,
}

const STEPS: u16 = 20;

impl Known {
    fn new(limit_us: f64, noise: f64) -> Self {
        let steps = |name| Parameter::ordered(name, (0..STEPS).map(|step| step.to_string()));
        let goal = format!("web p99 <= {limit_us}us");
        let parameters = vec![steps("harm"), steps("help"), steps("idle")];
        Known { goals: vec![goal.parse().unwrap()], parameters, noise }
    }

    fn part(point: &Point, number: usize) -> f64 {
        point.0[number].map_or(0.0, |step| f64::from(step + 1) / f64::from(STEPS))
    }
}

impl Problem for Known {
    fn goals(&self) -> &[Goal] {
        &self.goals
    }

    fn cost(&self) -> String {
        "batch work".to_owned()
    }

    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn starts(&self) -> Vec<Point> {
        let none = Point::empty(&self.parameters);
        (0..3).flat_map(|number| [2, 17].map(|step| none.with(number, Some(step)))).collect()
    }

    fn lost(&self, before: &Measured, measured: &Measured) -> f64 {
        1.0 - measured.cost / before.cost
    }

    fn evaluate(&self, point: &Point, run: Run) -> Result<Option<Measured>, Error> {
        let [harm, help] = [0, 1].map(|number| Known::part(point, number));
        let luck = (run.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 24);
        // A short run is as good here, and a bit off.
        let off = if run.effort == Effort::Short { 1.01 } else { 1.0 };
        let latency_us = (1100.0 - 1000.0 * help) * off * (1.0 + self.noise * (2.0 * luck - 1.0));
        let work = 100.0 * (1.0 - 0.3 * help * help - 0.2 * harm);
        let vms = vec![VmMeasured { name: "batch".to_owned(), p99_us: None, wakeups: 0.0, work }];
        Ok(Some(Measured { goals: vec![latency_us], cost: work, vms, notes: Vec::new() }))
    }

    fn usual_budget(&self) -> u64 {
        160
    }

    fn policy(&self, point: &Point) -> String {
        point.describe(&self.parameters)
    }

    fn limits(&self, strains: &[f64]) -> Result<Vec<String>, Error> {
        Ok(vec![format!("{:.1}", strains[0])])
    }
}

/// 600 us need half the help, which costs 0.3 / 4 of the work; a step of a twentieth more costs 0.3 * (0.55^2) = 0.091, two 0.108.
#[test]
fn the_known_front_is_found() {
    let found = tune(&Known::new(600.0, 0.0), &Options::default(), &|_| {}).unwrap();
    let chosen = &found.points[found.chosen.unwrap() - 1];
    assert!((0.0749..=0.1081).contains(&chosen.lost.median), "{found:#?}");
    assert!(found.limits.is_empty());
    for point in &found.points {
        assert_eq!(point.keys, 1, "only `help` helps: {point:?}");
        let (us, lost) = (point.figures[0].figure.median, point.lost.median);
        let help = (1100.0 - us) / 1000.0;
        assert!((lost - 0.3 * help * help).abs() < 1e-9, "on the front: {point:?}");
    }
    // From the goal down to the shortest that there is.
    let shortest = found.points.last().unwrap().figures[0].figure.median;
    assert!(shortest <= 200.0, "{found:#?}");
    let order: Vec<f64> = found.points.iter().map(|point| point.lost.median).collect();
    assert!(order.is_sorted());
}

#[test]
fn what_cannot_be_reached_is_said() {
    let found = tune(&Known::new(50.0, 0.0), &Options::default(), &|_| {}).unwrap();
    assert_eq!(found.chosen, None);
    // The shortest is 100 us of 50, or a step from it.
    assert!(["2.0", "3.0"].contains(&found.limits[0].as_str()), "{found:#?}");
    assert!(found.points.iter().all(|point| !point.reached));
    assert!(found.table().contains("no point reaches the goal\nlimit: "), "{}", found.table());
}

#[test]
fn what_is_reached_as_it_is_needs_nothing() {
    let found = tune(&Known::new(2000.0, 0.0), &Options::default(), &|_| {}).unwrap();
    assert_eq!(found.chosen, Some(0));
    assert!(found.table().contains("nothing has to be changed"));
}

/// The same bits with one thread and with three, and others with another seed.
#[test]
fn threads_change_nothing() {
    let problem = Known::new(600.0, 0.2);
    let of = |threads, seed| {
        let options = Options { threads, seed, ..Options::default() };
        tune(&problem, &options, &|_| {}).unwrap()
    };
    let one = of(1, 1);
    assert_eq!(one, of(3, 1));
    assert_ne!(one.before.figures, of(1, 2).before.figures);
    // What is shown varies from run to run, and its middle is in between.
    let figure = one.points[0].figures[0].figure;
    assert!(figure.min < figure.median && figure.median < figure.max);
}

#[test]
fn time_that_runs_out_is_said() {
    let options = Options { max_time: Some(std::time::Duration::ZERO), ..Options::default() };
    let found = tune(&Known::new(600.0, 0.0), &options, &|_| {}).unwrap();
    assert!(found.stopped && found.table().contains("time ran out"), "{found:#?}");
}
