//! Prints the service account, role and binding of `tas serve`, as `deploy/rbac` holds them.

fn main() {
    print!("{}", cluster::rights::serve_yaml());
}
