//! The page in a real browser, as a person uses it, and its doors, as an attacker tries them.

mod doors;
mod figures;
mod hostile;
mod looks;
mod survive;
mod visit;
mod visitor;
mod webdriver;
mod work;
