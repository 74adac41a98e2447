//! The TASPolicy definition meets a real API server: it is accepted, and bad objects are refused in words that help.

use e2e::{PATIENCE, cluster_of};
use testbed::Cluster;
use testbed::wait::until;

/// The definition as it is shipped.
const DEFINITION: &str = include_str!("../../../deploy/crds/telemetry.intel.com_taspolicies.yaml");

/// The power policy that Intel's users have, field by field.
const POWER: &str = "apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: power-policy}
spec:
  strategies:
    dontschedule:
      rules:
      - {metricname: collectd_package_0_power_power, operator: GreaterThan, target: 30}
";

async fn cluster_with_policies() -> Cluster {
    let cluster = cluster_of(0).await;
    cluster.apply(DEFINITION).await.expect("the API server accepts the definition");
    until("policies to be served", PATIENCE, || cluster.kubectl(&["get", "taspolicies"]))
        .await
        .expect("served");
    cluster
}

fn policy(strategy: &str, rule: &str) -> String {
    format!(
        "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {{name: wrong}}\n\
         spec: {{strategies: {{{strategy}: {{rules: [{{{rule}}}]}}}}}}\n"
    )
}

#[tokio::test]
async fn a_policy_of_intels_users_is_stored_as_it_was_written() {
    let cluster = cluster_with_policies().await;
    cluster.apply(POWER).await.expect("accepted");
    let path = "jsonpath={.spec}";
    let stored = cluster.kubectl(&["get", "taspolicy", "power-policy", "-o", path]).await.expect("stored");
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&stored).expect("JSON"),
        serde_json::json!({"strategies": {"dontschedule": {"rules": [
            {"metricname": "collectd_package_0_power_power", "operator": "GreaterThan", "target": 30},
        ]}}})
    );
}

#[tokio::test]
async fn bad_policies_are_refused_with_the_field_and_the_reason() {
    let cluster = cluster_with_policies().await;
    for (strategy, rule, field, reason) in [
        (
            "dontschedule",
            "metricname: power, operator: Bigger, target: 1",
            "spec.strategies.dontschedule.rules[0].operator",
            r#"Unsupported value: "Bigger": supported values: "Equals""#,
        ),
        (
            "dontschedule",
            "operator: Equals, target: 1",
            "spec.strategies.dontschedule.rules[0].metricname",
            "Required value",
        ),
        (
            "dontschedule",
            "metricname: power, operator: LessThan, target: warm",
            "spec.strategies.dontschedule.rules[0].target",
            "should match",
        ),
        (
            "dontschedule",
            "metricname: power, operator: Equals, target: 1, clear: 2",
            "spec.strategies[dontschedule].rules[0]",
            "a point has no side to leave on",
        ),
        (
            "dontschedule",
            "metricname: power, operator: LessThan, target: 1, weight: 3",
            "spec.strategies",
            "weight and normalize have a meaning only under scheduleonmetric",
        ),
    ] {
        let refusal = cluster.apply(&policy(strategy, rule)).await.expect_err(rule).to_string();
        assert!(refusal.contains(field) && refusal.contains(reason), "{rule}: {refusal}");
    }
}
