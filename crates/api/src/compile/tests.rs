//! What becomes of policies: those of Intel TAS and its users, every trap, and every field of ours.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::num::NonZeroU32;
use std::time::Duration;

use engine::names::{MetricName, PolicyRef};
use engine::policy::{
    Combine, DEFAULT_MAX_AGE, Deschedule, Direction, Label, LabelRule, Labeling, Load, Mark, Mode, OnMissing,
    Operator, Policy, Preference, Rule, RuleSet, Span, TaintEffect, Threshold,
};
use engine::quantity::Quantity;

use super::{Compiled, Defaults, compile};
use crate::policy::TasPolicy;
use crate::problem::{Code, Severity};

fn compiled(yaml: &str) -> Compiled {
    let object: TasPolicy = serde_saphyr::from_str(yaml).unwrap();
    compile(&object, &Defaults::default())
}

/// A policy `p` whose strategies are the given lines.
fn strategies(lines: &str) -> String {
    let mut yaml = "metadata: {name: p}\nspec:\n  strategies:\n".to_owned();
    for line in lines.lines() {
        writeln!(yaml, "    {line}").unwrap();
    }
    yaml
}

fn rule(metric: &str, operator: Operator, target: &str) -> Rule {
    Rule {
        metric: MetricName::new(metric).unwrap(),
        threshold: Threshold::new(operator, target.parse().unwrap()),
        hold: Duration::ZERO,
        max_age: DEFAULT_MAX_AGE,
        load: Load::default(),
    }
}

fn any_of<const N: usize>(rules: [Rule; N]) -> RuleSet {
    RuleSet { combine: Combine::AnyOf, rules: rules.into() }
}

fn preference(metric: &str, direction: Direction) -> Preference {
    Preference {
        metric: MetricName::new(metric).unwrap(),
        direction: Some(direction),
        weight: NonZeroU32::MIN,
        normalize: None,
        max_age: DEFAULT_MAX_AGE,
        load: Load::default(),
    }
}

fn named(name: &str) -> Policy {
    Policy::empty(PolicyRef::new("default", name).unwrap())
}

fn clean(policy: Policy) -> Compiled {
    Compiled { policy: Some(policy), problems: Vec::new() }
}

#[test]
fn the_health_demo_of_intel_tas_compiles_as_it_stands() {
    let equals = |target| rule("health_metric", Operator::Equals, target);
    let expected = Policy {
        deschedule: Some(Deschedule { when: any_of([equals("2")]), marks: [Mark::Label].into() }),
        dontschedule: Some(any_of([equals("1"), equals("2")])),
        scheduleonmetric: [preference("health_metric", Direction::LowerIsBetter)].into(),
        ..named("demo-policy")
    };
    assert_eq!(compiled(include_str!("../../fixtures/intel-health.yaml")), clean(expected));
}

#[test]
fn the_power_demo_of_intel_tas_compiles_as_it_stands() {
    let expected = Policy {
        dontschedule: Some(any_of([rule("package_power_avg", Operator::GreaterThan, "60")])),
        scheduleonmetric: [preference("package_power_avg", Direction::LowerIsBetter)].into(),
        ..named("power-sensitive-scheduling-policy")
    };
    assert_eq!(compiled(include_str!("../../fixtures/intel-power.yaml")), clean(expected));
}

#[test]
fn the_labelling_demo_of_intel_tas_compiles_as_it_stands() {
    let card = |metric, target, key: &str| LabelRule {
        rule: rule(metric, Operator::GreaterThan, target),
        labels: [Label { key: key.into(), value: "true".into() }].into(),
    };
    let expected = Policy {
        labeling: Some(Labeling {
            combine: Combine::AnyOf,
            rules: [card("metric_card0", "100", "card0"), card("metric_card1", "200", "card1")].into(),
        }),
        ..named("labeling-policy")
    };
    assert_eq!(compiled(include_str!("../../fixtures/intel-labeling.yaml")), clean(expected));
}

#[test]
fn the_power_policy_of_the_openshift_report_compiles_as_it_stands() {
    let expected = Policy {
        dontschedule: Some(any_of([rule("collectd_package_0_power_power", Operator::GreaterThan, "30")])),
        ..named("power-policy")
    };
    assert_eq!(compiled(include_str!("../../fixtures/openshift-power.yaml")), clean(expected));
}

#[test]
fn the_memory_policy_of_2020_compiles_as_it_stands() {
    let under = |target| rule("memory_MemFree_bytes", Operator::LessThan, target);
    let expected = Policy {
        deschedule: Some(Deschedule { when: any_of([under("10M")]), marks: [Mark::Label].into() }),
        dontschedule: Some(any_of([under("1M")])),
        scheduleonmetric: [preference("memory_MemFree_bytes", Direction::HigherIsBetter)].into(),
        ..named("demo-policy")
    };
    assert_eq!(compiled(include_str!("../../fixtures/free-memory.yaml")), clean(expected));
}

#[test]
fn a_policy_without_a_spec_says_nothing_and_loads() {
    let Compiled { policy, problems } = compiled("metadata: {name: p}");
    assert_eq!(policy, Some(named("p")));
    assert_eq!(problems.iter().map(|problem| problem.code).collect::<Vec<_>>(), [Code::EmptyPolicy]);
}

#[test]
fn every_field_of_ours_reaches_the_engine() {
    let Compiled { policy, problems } = compiled(
        r#"
metadata: {name: p, namespace: team}
spec:
  mode: Shadow
  onMissing: Deny
  maxAge: 2m
  strategies:
    dontschedule:
      logicalOperator: allOf
      rules:
      - {metricname: "zone:power:avg5m", operator: GreaterOrEqual, target: "2.5", clear: "2", for: 5m, perPod: "250m", settle: 30s}
      - {metricname: free, operator: LessOrEqual, target: 64Gi, maxAge: 90s}
    scheduleonmetric:
      rules:
      - {metricname: power, operator: LessThan, normalize: {min: 0, max: "200"}}
      - {metricname: free, operator: GreaterThan, weight: 3, settle: 90s}
    deschedule:
      action: [Taint]
      rules:
      - {metricname: errors, operator: NotEquals, target: 0}
"#,
    );
    let two_minutes = Duration::from_mins(2);
    let power = Rule {
        threshold: Threshold::new(Operator::GreaterOrEqual, "2.5".parse().unwrap())
            .with_clear(Quantity::from(2))
            .unwrap(),
        hold: Duration::from_mins(5),
        max_age: two_minutes,
        load: Load { per_pod: Some("250m".parse().unwrap()), settle: Duration::from_secs(30) },
        ..rule("zone:power:avg5m", Operator::GreaterOrEqual, "2.5")
    };
    let free = Rule { max_age: Duration::from_secs(90), ..rule("free", Operator::LessOrEqual, "64Gi") };
    let cooler = Preference {
        normalize: Some(Span::new(Quantity::ZERO, Quantity::from(200)).unwrap()),
        max_age: two_minutes,
        ..preference("power", Direction::LowerIsBetter)
    };
    let roomier = Preference {
        weight: NonZeroU32::new(3).unwrap(),
        max_age: two_minutes,
        load: Load { per_pod: None, settle: Duration::from_secs(90) },
        ..preference("free", Direction::HigherIsBetter)
    };
    let errors = Rule { max_age: two_minutes, ..rule("errors", Operator::NotEquals, "0") };
    let expected = Policy {
        mode: Mode::Shadow,
        on_missing: OnMissing::Deny,
        dontschedule: Some(RuleSet { combine: Combine::AllOf, rules: [power, free].into() }),
        scheduleonmetric: [cooler, roomier].into(),
        deschedule: Some(Deschedule {
            when: any_of([errors]),
            marks: [Mark::Taint(TaintEffect::PreferNoSchedule)].into(),
        }),
        ..Policy::empty(PolicyRef::new("team", "p").unwrap())
    };
    assert_eq!(policy, Some(expected));
    assert_eq!(problems.iter().map(|problem| problem.code).collect::<Vec<_>>(), [Code::NeedsOurCrd]);
}

#[test]
fn server_defaults_fill_what_nobody_says() {
    let object: TasPolicy =
        serde_saphyr::from_str(include_str!("../../fixtures/openshift-power.yaml")).unwrap();
    let defaults = Defaults {
        namespace: "team".to_owned(),
        max_age: Duration::from_secs(42),
        settle: Duration::from_secs(7),
    };
    let policy = compile(&object, &defaults).policy.unwrap();
    assert_eq!(policy.name.to_string(), "team/power-policy");
    let rule = &policy.dontschedule.unwrap().rules[0];
    assert_eq!((rule.max_age, rule.load.settle), (Duration::from_secs(42), Duration::from_secs(7)));
}

#[test]
fn where_field_and_annotation_disagree_the_one_that_does_less_wins() {
    let mode = |annotation: &str, field: &str| {
        let annotations = format!("annotations: {{telemetry-aware.github.io/mode: {annotation}}}");
        compiled(&format!("metadata: {{name: p, {annotations}}}\nspec: {{mode: {field}, strategies: {{}}}}"))
            .policy
            .map(|policy| policy.mode)
    };
    assert_eq!(mode("Shadow", "Enforce"), Some(Mode::Shadow));
    assert_eq!(mode("Enforce", "Shadow"), Some(Mode::Shadow));
    assert_eq!(mode("Enforce", "Enforce"), Some(Mode::Enforce));
    // Someone who asked for a trial run in other words must not get the real thing.
    assert_eq!(mode("shadow", "Enforce"), None);
}

#[test]
fn a_strategy_nobody_knows_does_not_take_the_others_with_it() {
    let yaml = strategies(
        "dontSchedule: {rules: []}\ndontschedule: {rules: [{metricname: m, operator: GreaterThan, target: 1}]}",
    );
    assert_eq!(
        compiled(&yaml).policy.unwrap().dontschedule,
        Some(any_of([rule("m", Operator::GreaterThan, "1")]))
    );
}

#[test]
fn a_label_that_cannot_be_written_is_left_out_and_the_others_stay() {
    let yaml = strategies(
        "labeling: {rules: [{metricname: m, operator: GreaterThan, target: 1, labels: [broken, good=1, good=2]}]}",
    );
    let labels = &compiled(&yaml).policy.unwrap().labeling.unwrap().rules[0].labels;
    assert_eq!(&**labels, [Label { key: "good".into(), value: "1".into() }]);
}

#[test]
fn a_taint_is_soft_unless_the_policy_says_otherwise() {
    let mark = |fields: &str| {
        let rules = "rules: [{metricname: m, operator: LessThan, target: 1}]";
        let yaml = strategies(&format!("deschedule: {{action: [Taint]{fields}, {rules}}}"));
        compiled(&yaml).policy.unwrap().deschedule.unwrap().marks[0]
    };
    assert_eq!(mark(""), Mark::Taint(TaintEffect::PreferNoSchedule));
    assert_eq!(mark(", taintEffect: PreferNoSchedule"), Mark::Taint(TaintEffect::PreferNoSchedule));
    assert_eq!(mark(", taintEffect: NoSchedule"), Mark::Taint(TaintEffect::NoSchedule));
}

#[test]
fn a_name_too_long_for_a_key_costs_the_marks_and_nothing_else() {
    let yaml = strategies(
        "deschedule: {action: [Label, Taint], rules: [{metricname: m, operator: LessThan, target: 1}]}",
    )
    .replace("name: p", &format!("name: {}", "p".repeat(64)));
    let deschedule = compiled(&yaml).policy.unwrap().deschedule.unwrap();
    assert_eq!((&*deschedule.marks, deschedule.when.rules.len()), (&[][..], 1));
}

/// Every problem there is, in words. Each case is a policy and the reason why it is in the list.
const TRAPS: &[(&str, &str)] = &[
    ("no name", "spec: {strategies: {}}"),
    ("bad name", "metadata: {name: My_Policy}"),
    ("name with a dash in front", "metadata: {name: -p}"),
    ("bad namespace", "metadata: {name: p, namespace: My Team}"),
    ("unknown mode", "metadata: {name: p}\nspec: {mode: shadow}"),
    ("unknown onMissing", "metadata: {name: p}\nspec: {onMissing: Refuse}"),
    (
        "mode in two places",
        "metadata: {name: p, annotations: {telemetry-aware.github.io/mode: Shadow}}\nspec: {mode: Enforce}",
    ),
    ("maxAge of nought", "metadata: {name: p}\nspec: {maxAge: 0s}"),
    ("maxAge in words", "metadata: {name: p}\nspec: {maxAge: 3 minutes}"),
];
const STRATEGY_TRAPS: &[(&str, &str)] = &[
    (
        "taint effect nobody knows",
        "deschedule: {action: [Taint], taintEffect: NoExecute, rules: [{metricname: m, operator: LessThan, target: 1}]}",
    ),
    (
        "taint effect without taint",
        "deschedule: {taintEffect: NoSchedule, rules: [{metricname: m, operator: LessThan, target: 1}]}",
    ),
    (
        "taint effect elsewhere",
        "dontschedule: {taintEffect: NoSchedule, rules: [{metricname: m, operator: LessThan, target: 1}]}",
    ),
    ("unknown strategy", "dontSchedule: {rules: []}\nprioritise: {rules: []}"),
    ("empty rules", "deschedule: {rules: []}"),
    (
        "logical operator",
        "dontschedule: {logicalOperator: AND, rules: [{metricname: m, operator: LessThan, target: 1}]}",
    ),
    (
        "logical operator where nothing combines",
        "scheduleonmetric: {logicalOperator: allOf, rules: [{metricname: m, operator: LessThan}]}",
    ),
    (
        "policyName of another",
        "dontschedule: {policyName: q, rules: [{metricname: m, operator: LessThan, target: 1}]}",
    ),
    (
        "action elsewhere",
        "dontschedule: {action: [Label], rules: [{metricname: m, operator: LessThan, target: 1}]}",
    ),
    (
        "actions",
        "deschedule: {action: [Label, Evict, Label], rules: [{metricname: m, operator: LessThan, target: 1}]}",
    ),
    ("no action", "deschedule: {action: [], rules: [{metricname: m, operator: LessThan, target: 1}]}"),
    (
        "ignored rules",
        "scheduleonmetric: {rules: [{metricname: a, operator: LessThan}, {metricname: b, operator: LessThan}, {metricname: a, operator: LessThan, weight: 2}]}",
    ),
    (
        "target that orders nothing",
        "scheduleonmetric: {rules: [{metricname: m, operator: Equals, target: 5, labels: [a=b]}]}",
    ),
    (
        "violation fields in a preference",
        "scheduleonmetric: {rules: [{metricname: m, operator: LessThan, clear: 1, for: 5m}]}",
    ),
    (
        "preference fields in a violation",
        "dontschedule: {rules: [{metricname: m, operator: LessThan, target: 1, weight: 2, normalize: {min: 0, max: 1}}]}",
    ),
    (
        "weights",
        "scheduleonmetric: {rules: [{metricname: a, operator: LessThan, weight: 0}, {metricname: b, operator: LessThan, weight: 5000}]}",
    ),
    (
        "scales",
        "scheduleonmetric: {rules: [{metricname: a, operator: LessThan, normalize: {min: 9, max: 1}}, {metricname: b, operator: LessThan, weight: 1, normalize: {min: 0}}]}",
    ),
    (
        "metric names",
        "dontschedule: {rules: [{metricname: '', operator: LessThan, target: 1}, {metricname: a.b, operator: LessThan, target: 1}, {metricname: node_temp, operator: LessThan, target: 1}]}",
    ),
    (
        "operators",
        "dontschedule: {rules: [{metricname: a, operator: '>', target: 1}, {metricname: b, operator: greaterthan, target: 1}, {metricname: c, operator: Between, target: 1}, {metricname: d, operator: '', target: 1}]}",
    ),
    (
        "numbers",
        "dontschedule: {rules: [{metricname: a, operator: LessThan, target: 3O}, {metricname: b, operator: LessThan, target: ''}, {metricname: c, operator: LessThan, target: '1e400'}, {metricname: d, operator: LessThan, target: NaN}, {metricname: e, operator: LessThan, target: ' 5'}]}",
    ),
    ("no target", "dontschedule: {rules: [{metricname: a, operator: Equals}]}"),
    (
        "equality of fractions",
        "dontschedule: {rules: [{metricname: package_power_avg, operator: Equals, target: 60}, {metricname: m, operator: NotEquals, target: '2.5'}]}",
    ),
    (
        "clear values",
        "dontschedule: {rules: [{metricname: a, operator: GreaterThan, target: 80, clear: 90}, {metricname: b, operator: Equals, target: 1, clear: 0}, {metricname: c, operator: LessThan, target: 1, clear: 1}]}",
    ),
    (
        "durations",
        "dontschedule: {rules: [{metricname: a, operator: LessThan, target: 1, for: -5m}, {metricname: b, operator: LessThan, target: 1, for: 30}, {metricname: c, operator: LessThan, target: 1, for: 48h}, {metricname: d, operator: LessThan, target: 1, for: 2h, maxAge: 1s}]}",
    ),
    (
        "loads",
        "dontschedule: {rules: [{metricname: a, operator: GreaterThan, target: 1, settle: 5m}, {metricname: b, operator: GreaterThan, target: 1, perPod: 0}, {metricname: c, operator: GreaterThan, target: 1, perPod: 5, settle: 0s}, {metricname: d, operator: GreaterThan, target: 1, perPod: -5}, {metricname: e, operator: LessThan, target: 1, perPod: 64Mi}, {metricname: f, operator: Equals, target: 1, perPod: 1}]}",
    ),
    (
        "the same twice",
        "dontschedule: {rules: [{metricname: a, operator: GreaterThan, target: 1}, {metricname: a, operator: GreaterThan, target: 1}]}",
    ),
    (
        "one inside the other",
        "dontschedule: {rules: [{metricname: a, operator: GreaterThan, target: 1}, {metricname: a, operator: GreaterThan, target: 2}, {metricname: b, operator: LessThan, target: 1}, {metricname: b, operator: LessThan, target: 2}]}",
    ),
    (
        "always",
        "dontschedule: {rules: [{metricname: a, operator: GreaterThan, target: 1}, {metricname: a, operator: LessThan, target: 2}]}",
    ),
    (
        "never",
        "deschedule: {logicalOperator: allOf, rules: [{metricname: a, operator: GreaterThan, target: 2}, {metricname: a, operator: LessThan, target: 1}]}",
    ),
    (
        "labels elsewhere",
        "dontschedule: {rules: [{metricname: a, operator: LessThan, target: 1, labels: [a=b]}]}",
    ),
    (
        "labels",
        "labeling: {rules: [{metricname: a, operator: LessThan, target: 1, labels: [card0, =x, a=b=c, x/y=1, ok=1, ok=2]}, {metricname: b, operator: LessThan, target: 1}]}",
    ),
    (
        "one label, two directions",
        "labeling: {rules: [{metricname: a, operator: GreaterThan, target: 9, labels: [foo=1]}, {metricname: b, operator: LessThan, target: 1, labels: [foo=2]}]}",
    ),
];

#[test]
fn every_trap_has_its_words() {
    let mut report = String::new();
    let cases = TRAPS.iter().map(|(name, yaml)| (*name, (*yaml).to_owned()));
    let cases = cases.chain(STRATEGY_TRAPS.iter().map(|(name, lines)| (*name, strategies(lines))));
    let long = |length| {
        strategies("labeling: {rules: [{metricname: a, operator: LessThan, target: 1, labels: [a=b]}]}\ndeschedule: {rules: [{metricname: a, operator: LessThan, target: 1}]}").replace("name: p", &format!("name: {}", "p".repeat(length)))
    };
    let many = |count, rule: &str| {
        strategies(&format!("dontschedule: {{rules: [{}]}}", vec![rule; count].join(", ")))
    };
    let rules = |count: usize| {
        let rules: Vec<_> =
            (0..count).map(|n| format!("{{metricname: m{n}, operator: LessThan, target: 1}}")).collect();
        strategies(&format!("dontschedule: {{rules: [{}]}}", rules.join(", ")))
    };
    let cases = cases.chain([
        ("a name of 64 characters", long(64)),
        ("a name of 227 characters", long(227)),
        ("1,000 rules", rules(1000)),
        ("1,001 rules", many(1001, "{metricname: m, operator: LessThan, target: 1}")),
        (
            "65 labels",
            strategies(&format!(
                "labeling: {{rules: [{{metricname: m, operator: LessThan, target: 1, labels: [{}]}}]}}",
                vec!["a=b"; 65].join(", ")
            )),
        ),
        (
            "17 strategies",
            strategies(&(0..17).map(|n| format!("s{n}: {{rules: []}}")).collect::<Vec<_>>().join("\n")),
        ),
        (
            "400 digits",
            strategies(&format!(
                "dontschedule: {{rules: [{{metricname: m, operator: LessThan, target: '{}'}}]}}",
                "9".repeat(400)
            )),
        ),
    ]);
    let mut seen = BTreeSet::new();
    for (name, yaml) in cases {
        let Compiled { policy, problems } = compiled(&yaml);
        let refused = problems.iter().any(|problem| problem.severity == Severity::Error);
        assert_eq!(policy.is_none(), refused, "{name}: a policy is missing exactly when there is an error");
        assert!(!problems.is_empty(), "{name}: a trap that nobody is told of");
        writeln!(report, "{name}").unwrap();
        for problem in problems {
            seen.insert(problem.code);
            writeln!(report, "  {problem}").unwrap();
        }
    }
    insta::assert_snapshot!(report);
    // These are about the shape of a document, or about several policies.
    let elsewhere = [
        Code::WrongType,
        Code::MissingField,
        Code::UnknownField,
        Code::EmptyField,
        Code::UnknownVersion,
        Code::MissingKind,
        Code::DuplicatePolicy,
        Code::SharedLabel,
    ];
    let unseen: Vec<_> =
        Code::ALL.iter().filter(|code| !seen.contains(code) && !elsewhere.contains(code)).collect();
    assert_eq!(unseen, Vec::<&Code>::new());
}
