//! The house as data: which crate may use which of ours, and what of the outside world it must not reach.
//! The order matters: `AllAbove` means the rows above.

/// One crate of ours, named after its directory.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) name: &'static str,
    /// The one sentence that says what belongs in it.
    pub(crate) is: &'static str,
    pub(crate) uses: Uses,
    pub(crate) world: &'static World,
}

/// Which of our crates a room may depend on, tests aside.
#[derive(Debug)]
pub(crate) enum Uses {
    Only(&'static [&'static str]),
    AllAbove,
    Any,
}

/// How much of the outside world a room may see.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) says: &'static str,
    /// Packages that must not be in the room's dependencies, however far down (macros that run at build time aside).
    pub(crate) never: &'static [&'static str],
}

const PURE: World = World {
    says: "none: no async, no clock, no kube, no I/O",
    never: &[
        "tokio",
        "mio",
        "socket2",
        "futures-executor",
        "hyper",
        "hyper-util",
        "reqwest",
        "axum",
        "tower",
        "rustls",
        "kube",
        "kube-core",
        "kube-client",
        "kube-runtime",
        "k8s-openapi",
        "tracing-subscriber",
    ],
};

const TYPES: World = World {
    says: "types only: no runtime, no sockets, no client",
    never: &[
        "tokio",
        "mio",
        "socket2",
        "futures-executor",
        "hyper",
        "hyper-util",
        "reqwest",
        "axum",
        "rustls",
        "kube-client",
        "kube-runtime",
        "tracing-subscriber",
    ],
};

// tokio itself may come along for its channels; its `net` feature is what brings mio and socket2.
const HTTP_TYPES: World = World {
    says: "HTTP types only: no kube, no feed, so that \"no I/O on the request path\" is checked by the compiler",
    never: &["mio", "socket2", "hyper", "hyper-util", "reqwest", "rustls", "kube-client", "kube-runtime"],
};

const NO_KUBERNETES: World = World {
    says: "knows neither policies nor Kubernetes",
    never: &["kube", "kube-core", "kube-client", "kube-runtime", "k8s-openapi"],
};

const OPEN: World = World { says: "open", never: &[] };

const SMALL: World = World { says: "compiles in seconds", never: &["tokio", "hyper", "kube", "syn", "clap"] };

pub(crate) const ROOMS: &[Room] = &[
    Room {
        name: "engine",
        is: "What a policy means, for a whole cluster, at a moment.",
        uses: Uses::Only(&[]),
        world: &PURE,
    },
    Room {
        name: "schedconf",
        is: "Edits scheduler configuration and static-pod manifests as text, or refuses.",
        uses: Uses::Only(&[]),
        world: &PURE,
    },
    Room {
        name: "api",
        is: "Every Kubernetes object, wire message and recording we speak; compiles a TASPolicy into an engine policy.",
        uses: Uses::Only(&["engine"]),
        world: &TYPES,
    },
    Room {
        name: "chassis",
        is: "What any process of ours needs: arguments, logs, accept loop, TLS, limits, admin port, shutdown.",
        uses: Uses::Only(&[]),
        world: &NO_KUBERNETES,
    },
    Room {
        name: "cluster",
        is: "Our way of talking to Kubernetes: client, lease with fencing, apply, events, lean watches.",
        uses: Uses::Only(&["api", "chassis"]),
        world: &OPEN,
    },
    Room {
        name: "feed",
        is: "Brings samples, policies, nodes and pods in; calls engine::advance; publishes the View.",
        uses: Uses::Only(&["engine", "api", "chassis", "cluster"]),
        world: &OPEN,
    },
    Room {
        name: "extender",
        is: "The router that answers kube-scheduler from a View.",
        uses: Uses::Only(&["engine", "api"]),
        world: &HTTP_TYPES,
    },
    Room {
        name: "page",
        is: "The web page and its event stream, from a View.",
        uses: Uses::Only(&["engine", "api"]),
        world: &HTTP_TYPES,
    },
    Room {
        name: "server",
        is: "`tas serve`: wires feed, extender, page; modules controller and metrics_api.",
        uses: Uses::AllAbove,
        world: &OPEN,
    },
    Room {
        name: "deploy",
        is: "Which objects, rights and certificates an installation consists of (pure).",
        uses: Uses::Only(&["api", "schedconf"]),
        world: &TYPES,
    },
    Room {
        name: "operator",
        is: "`tas operator`: secondary schedulers and scheduler extensions.",
        uses: Uses::Only(&["api", "schedconf", "deploy", "cluster", "chassis"]),
        world: &OPEN,
    },
    Room {
        name: "patcher",
        is: "`tas patch`: applies schedconf edits on a control-plane host and proves that they took.",
        uses: Uses::Only(&["api", "schedconf", "cluster", "chassis"]),
        world: &OPEN,
    },
    Room {
        name: "sim",
        is: "A cluster in virtual time around the real engine; placing is a closure.",
        uses: Uses::Only(&["engine", "api"]),
        world: &TYPES,
    },
    Room {
        name: "cli",
        is: "The binary `tas`: one file per subcommand.",
        uses: Uses::AllAbove,
        world: &OPEN,
    },
    Room {
        name: "agent",
        is: "The binary `tas-agent`: node telemetry, alone because it is on every node.",
        uses: Uses::Only(&["chassis"]),
        world: &NO_KUBERNETES,
    },
    Room {
        name: "xtask",
        is: "Generators and gates; compiles in seconds and uses none of ours.",
        uses: Uses::Only(&[]),
        world: &SMALL,
    },
    Room {
        name: "testbed",
        is: "A real control plane as a library and a command.",
        uses: Uses::Any,
        world: &OPEN,
    },
    Room { name: "e2e", is: "Tests on a real control plane.", uses: Uses::Any, world: &OPEN },
    Room { name: "bench", is: "Measurements beside the peers.", uses: Uses::Any, world: &OPEN },
];

/// Outside packages that none of ours names itself, because the language has grown the same thing.
/// Others may bring them along; that is their affair, and `deny.toml`'s where it matters.
pub(crate) const OUTGROWN: &[(&str, &str)] = &[
    ("lazy_static", "use std::sync::LazyLock"),
    ("once_cell", "use std::sync::LazyLock or OnceLock"),
    ("async-trait", "write `async fn` in the trait, or return `impl Future + Send`"),
    ("maplit", "use `From<[_; N]>`"),
    ("chrono", "use jiff, which kube and k8s-openapi already bring"),
];
