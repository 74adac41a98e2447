//! The gate on recorded values: each way of breaking the house is named, and what is allowed passes.

use super::*;
use crate::workspace::{Member, Need};

fn member(package: &str, needs: &[(&str, Kind)]) -> Member {
    let need = |(package, kind): &(&str, Kind)| Need { package: (*package).to_owned(), kind: *kind };
    Member { package: package.to_owned(), needs: needs.iter().map(need).collect() }
}

fn house(members: &[Member]) -> Workspace {
    Workspace { root: "/src/tas".into(), target: "/src/tas/target".into(), members: members.to_vec() }
}

/// The first lines of what `judge` says, which name the culprit.
fn broken(members: &[Member], reach: &[(&str, &[&str])]) -> Vec<String> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let reach = reach.iter().map(|(package, reached)| ((*package).to_owned(), names(reached))).collect();
    let said = judge(&house(members), &reach);
    said.iter().map(|text| text.lines().next().unwrap_or_default().to_owned()).collect()
}

const NORMAL: Kind = Kind::Normal;

#[test]
fn the_recorded_workspace_passes() {
    let recorded = Workspace::read(include_bytes!("../workspace/recorded.json")).expect("recorded metadata");
    assert_eq!(judge(&recorded, &Reach::new()), Vec::<String>::new());
}

#[test]
fn the_arrows_of_the_design_pass() {
    let members = [
        member("tas-engine", &[("thiserror", NORMAL)]),
        member("tas-schedconf", &[]),
        member("tas-api", &[("tas-engine", NORMAL)]),
        member("tas-chassis", &[("tokio", NORMAL)]),
        member("tas-feed", &[("tas-engine", NORMAL), ("tas-api", NORMAL), ("tas-chassis", NORMAL)]),
        member("tas-extender", &[("tas-engine", NORMAL), ("tas-api", NORMAL), ("axum", NORMAL)]),
        member("tas-server", &[("tas-feed", NORMAL), ("tas-extender", NORMAL), ("tas-schedconf", NORMAL)]),
        member("tas-cli", &[("tas-server", NORMAL), ("tas-engine", NORMAL)]),
        member("tas-e2e", &[("tas-cli", NORMAL), ("tas-testbed", NORMAL)]),
        member("tas-testbed", &[]),
        member("xtask", &[("serde_json", NORMAL)]),
    ];
    assert_eq!(
        broken(&members, &[("tas-extender", &["axum", "tokio"]), ("tas-chassis", &["tokio", "hyper"])]),
        [""; 0]
    );
}

#[test]
fn an_arrow_that_the_table_does_not_have_is_named_with_what_is_allowed() {
    let members = [
        member("tas-engine", &[("tas-api", NORMAL)]),
        member("tas-api", &[]),
        member("tas-extender", &[("tas-feed", NORMAL)]),
        member("tas-feed", &[]),
        member("tas-agent", &[("tas-cluster", Kind::Build)]),
        member("tas-cluster", &[]),
        member("xtask", &[("tas-engine", NORMAL)]),
    ];
    assert_eq!(
        broken(&members, &[]),
        [
            "engine uses api, but may use only: none of ours",
            "extender uses feed, but may use only: engine, api",
            "agent uses cluster, but may use only: chassis",
            "xtask uses engine, but may use only: none of ours",
        ]
    );
}

#[test]
fn all_above_ends_at_the_room_itself() {
    let members =
        [member("tas-server", &[("tas-cli", NORMAL), ("tas-page", NORMAL)]), member("tas-page", &[])];
    let with_cli = [&members[..], &[member("tas-cli", &[])]].concat();
    let said = broken(&with_cli, &[]);
    assert_eq!(
        said,
        ["server uses cli, but may use only: engine, schedconf, api, chassis, cluster, feed, extender, page"]
    );
}

#[test]
fn tests_may_borrow_from_any_room() {
    let members = [member("tas-engine", &[("tas-sim", Kind::Dev)]), member("tas-sim", &[])];
    assert_eq!(broken(&members, &[]), [""; 0]);
}

#[test]
fn a_crate_that_nobody_planned_is_refused() {
    assert_eq!(broken(&[member("tas-utils", &[])], &[]), ["tas-utils is not in the table"]);
}

#[test]
fn the_outside_world_is_looked_for_at_any_depth() {
    let members =
        ["tas-engine", "tas-extender", "tas-chassis", "tas-sim"].map(|package| member(package, &[]));
    let reach: [(&str, &[&str]); 4] = [
        ("tas-engine", &["jiff", "tokio"]),
        ("tas-extender", &["axum", "mio", "tokio"]),
        ("tas-chassis", &["k8s-openapi", "tokio"]),
        ("tas-sim", &["k8s-openapi", "kube-client", "kube-core"]),
    ];
    assert_eq!(
        broken(&members, &reach),
        [
            "engine reaches tokio",
            "extender reaches mio",
            "chassis reaches k8s-openapi",
            "sim reaches kube-client"
        ]
    );
}

#[test]
fn what_the_language_has_outgrown_is_not_named_even_in_tests() {
    let members = [member("tas-feed", &[("once_cell", Kind::Dev), ("lazy_static", NORMAL)])];
    assert_eq!(broken(&members, &[]), ["tas-feed names lazy_static", "tas-feed names once_cell"]);
}

#[test]
fn the_message_quotes_the_design_and_names_the_way_out() {
    let members = [member("tas-page", &[("tas-feed", NORMAL)]), member("tas-feed", &[])];
    assert_eq!(
        judge(&house(&members), &Reach::new()),
        ["page uses feed, but may use only: engine, api\n  \
          the design: The web page and its event stream, from a View. (HTTP types only: no kube, no feed, so that \
          \"no I/O on the request path\" is checked by the compiler)\n  \
          way out: take what you need as an argument, move the code to the room it belongs in, or change \
          xtask/src/layers/table.rs and ARCHITECTURE.md together, with the reason in docs/adr/"]
    );
}

#[test]
fn every_room_that_the_table_refers_to_is_above_the_one_that_uses_it() {
    for (place, room) in ROOMS.iter().enumerate() {
        let Uses::Only(names) = room.uses else { continue };
        for name in names {
            assert!(ROOMS[..place].iter().any(|above| above.name == *name), "{} uses {name}", room.name);
        }
    }
}

#[test]
fn the_lines_of_cargo_tree_become_names() {
    let tree = "tas-engine v0.1.0 (/src/tas/crates/engine)\njiff v0.2.39\nserde v1.0.228\njiff v0.2.39 (*)\n";
    assert_eq!(packages(tree), ["jiff", "serde", "tas-engine"]);
}
