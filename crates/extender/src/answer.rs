//! From a request's body to the answer's: decode, look up, write.

use engine::names::PolicyKey;
use engine::time::Timestamp;
use engine::{Ruling, View};

use crate::counters::add;
use crate::decode::{Args, DecodeError, PodRef, PreemptArgs, Text, Victims};
use crate::{Extender, Reply};

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
            let names: Vec<&str> = asked.iter().map(Text::as_str).collect();
            let mut list = List::open(&mut out, b"[");
            judge(to, view, policy, &names, now, &mut refused, |place| list.text(names[place]));
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
    let names: Vec<&str> = match (&args.names, &args.nodes) {
        (Some(names), _) => names.iter().map(Text::as_str).collect(),
        (None, Some(nodes)) => nodes.iter().map(|node| node.name.as_str()).collect(),
        (None, None) => Vec::new(),
    };
    let policy = policy_of(to, view, &args.pod, now);
    let scores = policy.and_then(|policy| engine::scores(view, policy, &names, to.score_top, now));
    let mut out = Vec::with_capacity(names.iter().map(|name| name.len() + 24).sum::<usize>() + 2);
    let mut list = List::open(&mut out, b"[");
    for (name, score) in names.iter().zip(scores.unwrap_or_default()) {
        list.score(name, score);
    }
    list.close(b"]");
    Ok(Reply::ok(out))
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

/// Writes JSON items with commas between them.
struct List<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> List<'o> {
    fn open(out: &'o mut Vec<u8>, with: &[u8]) -> Self {
        out.extend_from_slice(with);
        Self { out, empty: true }
    }

    fn close(self, with: &[u8]) {
        self.out.extend_from_slice(with);
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
    }

    fn raw(&mut self, json: &str) {
        self.comma();
        self.out.extend_from_slice(json.as_bytes());
    }

    fn text(&mut self, text: &str) {
        self.comma();
        write_text(self.out, text);
    }

    fn key(&mut self, key: &str) {
        self.text(key);
        self.out.push(b':');
    }

    fn pair(&mut self, key: &str, value: &str) {
        self.key(key);
        write_text(self.out, value);
    }

    fn score(&mut self, host: &str, score: u32) {
        self.comma();
        self.out.extend_from_slice(br#"{"Host":"#);
        write_text(self.out, host);
        self.out.extend_from_slice(br#","Score":"#);
        write_number(self.out, i64::from(score));
        self.out.push(b'}');
    }

    fn victims(&mut self, victims: &Victims<'_>) {
        match victims {
            Victims::Short(raw) => self.out.extend_from_slice(raw.get().as_bytes()),
            Victims::Long { uids, broken_budgets } => {
                let mut pods = List::open(self.out, br#"{"Pods":["#);
                for uid in uids {
                    pods.comma();
                    pods.out.extend_from_slice(br#"{"UID":"#);
                    write_text(pods.out, uid.as_str());
                    pods.out.push(b'}');
                }
                pods.close(br#"],"NumPDBViolations":"#);
                write_number(self.out, *broken_budgets);
                self.out.push(b'}');
            }
        }
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

fn write_number(out: &mut Vec<u8>, number: i64) {
    let _ = serde_json::to_writer(out, &number);
}
