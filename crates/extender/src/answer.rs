//! From a request's body to the answer's: decode, look up, write.

use std::borrow::Cow;

use engine::names::PolicyKey;
use engine::time::Timestamp;
use engine::{Ruling, View};

use crate::counters::add;
use crate::decode::{Args, DecodeError, PodRef, PreemptArgs};
use crate::write::{List, Run, write_plain, write_text};
use crate::{Extender, Names, Reply};

/// Which nodes may take the pod.
pub(crate) fn filter(to: &Extender, view: &View, body: &[u8], now: Timestamp) -> Result<Reply, DecodeError> {
    let args = Args::decode(body)?;
    let policy = policy_of(to, view, &args.pod, now);
    let mut out = Vec::with_capacity(body.len().min(1 << 20) + 256);
    let mut refused = Vec::new();

    out.extend_from_slice(br#"{"Nodes":"#);
    match &args.nodes {
        None => out.extend_from_slice(b"null"),
        Some(nodes) => {
            let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
            let mut list = List::open(&mut out, br#"{"metadata":{},"items":["#);
            judge(to, view, policy, &names, now, &mut refused, |place| list.raw(nodes[place].raw.get()));
            list.close(b"]}");
        }
    }
    out.extend_from_slice(br#","NodeNames":"#);
    match &args.names {
        None => out.extend_from_slice(b"null"),
        Some(asked) => {
            let names = asked.texts();
            let mut list = List::open(&mut out, b"[");
            match asked {
                Names::Plain(_) => {
                    let mut run = Run::of(body);
                    judge(to, view, policy, &names, now, &mut refused, |place| {
                        run.add(&mut list, names[place]);
                    });
                    run.end(&mut list);
                }
                Names::Escaped(_) => {
                    judge(to, view, policy, &names, now, &mut refused, |place| list.text(names[place]));
                }
            }
            list.close(b"]");
        }
    }
    out.extend_from_slice(br#","FailedNodes":{},"FailedAndUnresolvableNodes":"#);
    let mut list = List::open(&mut out, b"{");
    for (name, message) in &refused {
        list.pair(name, message);
    }
    list.close(br#"},"Error":""}"#);
    Ok(Reply::ok(out))
}

/// Judges the names; tells of each that passes by its place, and remembers the others with their message.
fn judge<'n, 'v>(
    to: &Extender,
    view: &'v View,
    policy: Option<PolicyKey<'_>>,
    names: &[&'n str],
    now: Timestamp,
    refused: &mut Vec<(&'n str, &'v str)>,
    mut passed: impl FnMut(usize),
) {
    add(&to.counters.nodes_asked, names.len());
    let Some(policy) = policy else { return (0..names.len()).for_each(passed) };
    let answer = engine::answer(view, policy, names, now);
    add(&to.counters.nodes_shadowed, answer.would_refuse);
    let already = refused.len();
    for (place, ruling) in answer.rulings.iter().enumerate() {
        match (ruling, answer.table()) {
            (Ruling::Refused(cause), Some(table)) => {
                refused.push((names[place], table.message(*cause)));
            }
            _ => passed(place),
        }
    }
    add(&to.counters.nodes_refused, refused.len() - already);
}

/// How the nodes compare. A node that is not in the answer gets nothing from us, so where the policy
/// prefers none the answer is empty.
pub(crate) fn prioritize(
    to: &Extender,
    view: &View,
    body: &[u8],
    now: Timestamp,
) -> Result<Reply, DecodeError> {
    let args = Args::decode(body)?;
    let names: Cow<'_, [&str]> = match (&args.names, &args.nodes) {
        (Some(names), _) => names.texts(),
        (None, Some(nodes)) => nodes.iter().map(|node| node.name.as_str()).collect(),
        (None, None) => Cow::Borrowed(&[]),
    };
    let policy = policy_of(to, view, &args.pod, now);
    let scores = policy.and_then(|policy| engine::scores(view, policy, &names, to.score_top, now));
    let write_name = if matches!(args.names, Some(Names::Plain(_))) { write_plain } else { write_text };
    let body = scores.map_or_else(|| b"[]".to_vec(), |scores| to.scores.write(&names, &scores, write_name));
    Ok(Reply::ok(body))
}

/// On which nodes eviction would be of any use: a node the policy refuses stays refused without its pods.
pub(crate) fn preempt(to: &Extender, view: &View, body: &[u8], now: Timestamp) -> Result<Reply, DecodeError> {
    let args = PreemptArgs::decode(body)?;
    let policy = policy_of(to, view, &args.pod, now);
    let names: Vec<&str> = args.victims.iter().map(|(name, _)| name.as_str()).collect();
    let mut out = Vec::with_capacity(body.len().min(1 << 20) + 64);
    let mut list = List::open(&mut out, br#"{"NodeNameToMetaVictims":{"#);
    judge(to, view, policy, &names, now, &mut Vec::new(), |place| {
        let (name, victims) = &args.victims[place];
        list.key(name.as_str());
        list.victims(victims);
    });
    list.close(b"}}");
    Ok(Reply::ok(out))
}

/// The policy the pod names; counted where it names none or one nobody knows.
fn policy_of<'p>(to: &Extender, view: &View, pod: &'p PodRef<'_>, now: Timestamp) -> Option<PolicyKey<'p>> {
    let Some(policy) = pod.policy() else {
        add(&to.counters.without_policy, 1);
        return None;
    };
    if view.table(policy).is_none() {
        add(&to.counters.policy_missing, 1);
        to.missing_policies.saw(&format!("{}/{}", policy.namespace, policy.name), now);
        return None;
    }
    Some(policy)
}
