//! Tests of the roots: which places are one and which never are.

use super::*;
use crate::attachments::world::World;

#[test]
fn roots_are_named_and_nothing_else() {
    for root in ROOT_NAMES {
        assert_eq!(RootName::from_name(root.name()), Some(root));
    }
    for name in ["", "Project", "/srv", "projects_root", "state_dir"] {
        assert_eq!(RootName::from_name(name), None, "{name}");
    }
}

fn names(places: &Places<'_>, class: ToolClass) -> Vec<RootName> {
    Roots::open(places, &ROOT_NAMES, class).unwrap().names()
}

#[test]
fn chat_has_no_project() {
    let world = World::new();
    let state_only = vec![RootName::ThreadInbox, RootName::RunnerTemp];
    assert_eq!(names(&world.places(), ToolClass::Chat), state_only);
    assert_eq!(names(&world.places(), ToolClass::Scoped), ROOT_NAMES);
    let narrow = Roots::open(&world.places(), &[RootName::RunnerTemp], ToolClass::Host).unwrap();
    assert_eq!(narrow.names(), [RootName::RunnerTemp]);
}

#[test]
fn places_that_are_never_a_root() {
    let world = World::new();
    let state_only = vec![RootName::ThreadInbox, RootName::RunnerTemp];
    for (what, path) in [
        ("the projects root", world.at("projects")),
        ("above the projects root", world.at("")),
        ("the whole system", PathBuf::from("/")),
        ("the state directory", world.at("state")),
        ("below the state directory", world.at("state/sessions")),
        ("missing", world.at("projects/none")),
        ("a view of the kernel", PathBuf::from("/proc/self")),
    ] {
        let project = Dir::open(&path).and_then(|dir| dir.id()).ok();
        let places = Places { working_dir: &path, project, ..world.places() };
        assert_eq!(names(&places, ToolClass::Scoped), state_only, "{what}");
    }
}

#[test]
fn another_directory_than_at_the_start_is_no_root() {
    let world = World::new();
    let places = world.places();
    let website = world.at("projects/website");
    std::fs::rename(&website, world.at("projects/moved")).unwrap();
    std::fs::create_dir(&website).unwrap();
    let state_only = vec![RootName::ThreadInbox, RootName::RunnerTemp];
    assert_eq!(names(&places, ToolClass::Scoped), state_only);
    std::fs::remove_dir(&website).unwrap();
    std::os::unix::fs::symlink(world.at("projects/other"), &website).unwrap();
    assert_eq!(names(&places, ToolClass::Scoped), state_only);
    let places = Places { project: None, ..world.places() };
    assert_eq!(names(&places, ToolClass::Scoped), state_only, "a revoked binding");
}

#[test]
fn an_inbox_replaced_by_a_link_is_no_root() {
    let world = World::new();
    for (root, target) in [("files/thread", "state/files/other"), ("tmp/run", "home")] {
        let path = world.at("state").join(root);
        std::fs::remove_dir_all(&path).unwrap();
        std::os::unix::fs::symlink(world.at(target), &path).unwrap();
    }
    assert_eq!(names(&world.places(), ToolClass::Scoped), [RootName::Project]);
}
