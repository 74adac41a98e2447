//! Prints the CustomResourceDefinition of `TASPolicy`, as `deploy/crds` holds it.

fn main() {
    print!("{}", api::crd_yaml());
}
