//! Tests of plans: the cases that are run, those that are left out, and refusals.

use super::*;

fn words(words: &[&str]) -> Vec<Located<String>> {
    words.iter().map(|word| Located::new((*word).to_string(), "--flag")).collect()
}

fn plan(policies: &[&str], drives: &[&str]) -> Plan {
    let spec =
        CompareSpec { policies: words(policies), drives: words(drives), ..CompareSpec::default() };
    Plan::new(spec).unwrap_or_else(|failure| panic!("{}", failure.message()))
}

#[test]
fn oracles_are_left_out_where_two_arms_move_and_the_reason_is_given() {
    let plan = plan(&["all", "fcfs"], &["atlas10k", "exos-2x18"]);
    let oracles = POLICIES.iter().filter(|entry| entry.oracle).count();
    assert_eq!(plan.policies.len(), POLICIES.len(), "fcfs stands among all, and is run once");
    assert_eq!((plan.cases.len(), plan.left_out.len()), (8, oracles));
    assert!(
        plan.left_out.iter().all(|left_out| left_out.drive == "exos-2x18"
            && left_out.reason.contains("oracle of one arm"))
    );
    assert_eq!(
        (plan.cases[0].policies.len(), plan.cases[7].policies.len()),
        (POLICIES.len(), POLICIES.len() - oracles)
    );
}

#[test]
fn every_policy_is_compared_by_every_belief_and_an_oracle_once() {
    let spec = |beliefs: &[&str], baseline: Option<&str>| CompareSpec {
        policies: words(&["fcfs", "sptf-oracle", "headtime"]),
        beliefs: words(beliefs),
        drives: words(&["atlas10k"]),
        baseline: baseline.map(|name| Located::new(name.to_string(), "--baseline")),
        ..CompareSpec::default()
    };
    let names = |spec: CompareSpec| {
        let plan = Plan::new(spec).unwrap_or_else(|failure| panic!("{}", failure.message()));
        let names: Vec<String> = (0..plan.policies.len())
            .map(|place| format!("{}|{}", plan.policies[place].text, plan.belief(place)))
            .collect();
        (names, plan.policies[plan.baseline].text.clone())
    };
    let one =
        ["fcfs|compact", "sptf-oracle|truth", "headtime|compact"].map(str::to_string).to_vec();
    assert_eq!(names(spec(&["compact"], None)), (one, "fcfs".to_string()));
    let several = [
        "fcfs by profile|profile",
        "fcfs by compact|compact",
        "sptf-oracle|truth",
        "headtime by profile|profile",
        "headtime by compact|compact",
    ];
    let several = several.map(str::to_string).to_vec();
    assert_eq!(
        names(spec(&["profile", "compact", "profile"], Some("headtime"))),
        (several.clone(), "headtime by profile".to_string())
    );
    assert_eq!(
        names(spec(&["profile", "compact"], Some("headtime by compact"))),
        (several, "headtime by compact".to_string())
    );
}

#[test]
fn a_workload_that_fits_no_depth_is_left_out_once() {
    let spec = CompareSpec {
        workloads: words(&["random:size=1000", "random"]),
        drives: words(&["atlas10k"]),
        ..CompareSpec::default()
    };
    let plan = Plan::new(spec).unwrap_or_else(|failure| panic!("{}", failure.message()));
    let [left_out] = plan.left_out.as_slice() else { panic!("{:?}", plan.left_out) };
    assert_eq!((left_out.depths.as_deref(), plan.cases.len()), (Some(&[1, 4, 16, 64][..]), 4));
    assert!(left_out.reason.contains("512"), "{}", left_out.reason);
}

#[test]
fn nothing_left_to_run_is_an_error_with_its_reasons() {
    let spec = CompareSpec {
        policies: words(&["sptf-oracle"]),
        drives: words(&["exos-2x18"]),
        ..CompareSpec::default()
    };
    let message = Plan::new(spec).map(|_| ()).expect_err("no policy can run").message();
    assert!(
        message
            .starts_with("nothing is left to compare: policy sptf-oracle is an oracle of one arm"),
        "{message}"
    );
    assert_eq!(each_once(["b", "a", "b"].into_iter()), ["b", "a"]);
}

#[test]
fn what_is_unknown_is_named_with_its_place() {
    for (spec, expected) in [
        (
            CompareSpec { policies: words(&["fastest"]), ..CompareSpec::default() },
            "--flag: there is no policy `fastest`; known are fcfs",
        ),
        (
            CompareSpec { beliefs: words(&["guess"]), ..CompareSpec::default() },
            "--flag: model = guess: expected profile, matrix, compact",
        ),
        (
            CompareSpec { beliefs: words(&["compact:no.map"]), ..CompareSpec::default() },
            "--flag: map no.map cannot be read",
        ),
        (
            CompareSpec { drives: words(&["wd40"]), ..CompareSpec::default() },
            "--flag: no profile is called `wd40`; known are",
        ),
        (CompareSpec { workloads: words(&["./no.toml"]), ..CompareSpec::default() }, "--flag: "),
        (
            CompareSpec {
                baseline: Some(Located::new("edf".to_string(), "--baseline")),
                ..CompareSpec::default()
            },
            "--baseline: the baseline edf is not among the policies compared, which are fcfs, \
                headtime",
        ),
    ] {
        let message = Plan::new(spec).map(|_| ()).expect_err("it is unknown").message();
        assert!(message.starts_with(expected), "`{message}` does not start with `{expected}`");
    }
}

#[test]
fn the_warm_up_is_a_tenth_and_never_less_than_two_of_each_client() {
    let spec = CompareSpec { requests: Located::new(1_000, "x"), ..CompareSpec::default() };
    let warm_ups = |spec: CompareSpec| {
        Plan::new(spec).map(|plan| plan.cases.iter().map(|case| case.warm_up).collect::<Vec<_>>())
    };
    assert_eq!(warm_ups(spec.clone()).expect("it is right"), [100, 100, 100, 128]);
    assert_eq!(
        warm_ups(CompareSpec { warmup: Some(Located::new(7, "x")), ..spec }).expect("it is right"),
        [7; 4]
    );
}
