//! Prints the scheduler configuration of our documents, as a block of Markdown.

use api::scheduler::{DOCUMENTED, configuration};

fn main() {
    print!("```yaml\n{}```\n", configuration(&DOCUMENTED));
}
