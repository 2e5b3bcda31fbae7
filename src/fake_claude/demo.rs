//! The built-in scenario: a friendly answer, and the work of the demo on an attached archive of orders.

use super::scenario::{self, Scenario};

/// The scenario's text.
const DEMO: &str = include_str!("demo.json");

/// The scenario that is played without a scenario file.
pub fn scenario() -> Scenario {
    // The text is part of the program and a test reads it.
    scenario::parse(DEMO).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demo_text_is_a_scenario() {
        assert_eq!(scenario::parse(DEMO).unwrap().turns.len(), 2);
    }
}
