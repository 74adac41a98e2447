//! From a request's body to the answer's: decode, look up, write.

use std::borrow::Cow;

use engine::names::PolicyKey;
use engine::time::Timestamp;
use engine::{Ruling, View};

use crate::counters::add;
use crate::decode::{Args, DecodeError, PodRef, PreemptArgs};
use crate::write::{List, Run, write_plain, write_text};
use crate::{Extender, Names, Reply, Verb};

/// Which nodes may take the pod.
pub(crate) fn filter(to: &Extender, view: &View, body: &[u8], now: Timestamp) -> Result<Reply, DecodeError> {
    let args = Args::decode(body)?;
    let policy = policy_of(to, view, &args.pod, Verb::Filter);
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
    tell(to, Verb::Filter, &args.pod, policy, now, || {
        let asked = args.names.as_ref().map_or(0, |names| names.texts().len())
            + args.nodes.as_ref().map_or(0, Vec::len);
        let why = refused.first().map(|(_, message)| *message).unwrap_or_default();
        format!("{} of {asked} nodes pass; {why}", asked - refused.len())
    });
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
    let newly = refused.len() - already;
    add(&to.counters.nodes_refused, newly);
    if let Some(table) = answer.table() {
        to.tallies.decided(&table.policy.name, newly, answer.would_refuse);
    }
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
    let policy = policy_of(to, view, &args.pod, Verb::Prioritize);
    let scores = policy.and_then(|policy| engine::scores(view, policy, &names, to.score_top, now));
    let write_name = if matches!(args.names, Some(Names::Plain(_))) { write_plain } else { write_text };
    tell(to, Verb::Prioritize, &args.pod, policy, now, || match &scores {
        None => "no preference".to_owned(),
        Some(scores) => {
            let best = scores.iter().zip(names.iter()).max_by_key(|(score, _)| **score);
            best.map(|(score, name)| format!("best {name} with {score}")).unwrap_or_default()
        }
    });
    let body = scores.map_or_else(|| b"[]".to_vec(), |scores| to.scores.write(&names, &scores, write_name));
    Ok(Reply::ok(body))
}

/// On which nodes eviction would be of any use: a node the policy refuses stays refused without its pods.
pub(crate) fn preempt(to: &Extender, view: &View, body: &[u8], now: Timestamp) -> Result<Reply, DecodeError> {
    let args = PreemptArgs::decode(body)?;
    let policy = policy_of(to, view, &args.pod, Verb::Preempt);
    let names: Vec<&str> = args.victims.iter().map(|(name, _)| name.as_str()).collect();
    let mut out = Vec::with_capacity(body.len().min(1 << 20) + 64);
    let mut list = List::open(&mut out, br#"{"NodeNameToMetaVictims":{"#);
    let mut refused = Vec::new();
    judge(to, view, policy, &names, now, &mut refused, |place| {
        let (name, victims) = &args.victims[place];
        list.key(name.as_str());
        list.victims(victims);
    });
    list.close(b"}}");
    tell(to, Verb::Preempt, &args.pod, policy, now, || {
        format!("eviction would help on {} of {} nodes", names.len() - refused.len(), names.len())
    });
    Ok(Reply::ok(out))
}

/// The policy the pod names; counted, and remembered where nobody knows it.
fn policy_of<'p>(to: &Extender, view: &View, pod: &'p PodRef<'_>, verb: Verb) -> Option<PolicyKey<'p>> {
    let Some(policy) = pod.policy() else {
        add(&to.counters.without_policy, 1);
        return None;
    };
    let Some(table) = view.table(policy) else {
        add(&to.counters.policy_missing, 1);
        to.strays.saw([policy.namespace, policy.name, pod.name.as_str(), pod.uid.as_str()]);
        return None;
    };
    to.tallies.asked(&table.policy.name, verb);
    Some(policy)
}

/// One line in the log for those who want to see every decision; a sample of them where there are many.
fn tell(
    to: &Extender,
    verb: Verb,
    pod: &PodRef<'_>,
    policy: Option<PolicyKey<'_>>,
    now: Timestamp,
    decided: impl FnOnce() -> String,
) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    if let Some(policy) = policy
        && let Some(left_out) = to.pace.admits(now)
    {
        let (namespace, pod) = (pod.namespace.as_str(), pod.name.as_str());
        let decided = decided();
        tracing::debug!(
            verb = verb.name(),
            namespace,
            pod,
            policy = policy.name,
            decided,
            left_out,
            "answered"
        );
    }
}
