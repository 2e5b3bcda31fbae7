//! Hostile content stays content: nothing runs, nothing leaves its place.

use serde_json::json;

use super::visitor::Visitor;
use super::webdriver::{DESKTOP, PHONE};
use crate::support::world::World;

/// Texts that try to run something or to leave their message.
const TEXTS: &[&str] = &[
    "<script>window.hit = 1</script>",
    "<img src=x onerror=\"window.hit = 1\">",
    "<svg onload=\"window.hit = 1\"><script>window.hit = 1</script></svg>",
    "<iframe srcdoc=\"<script>parent.hit = 1</script>\"></iframe>",
    "[click](javascript:window.hit=1) [tab](java&#9;script:window.hit=1) <javascript:window.hit=1>",
    "[data](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "![pixel](https://example.com/pixel.png)",
    "</div></li></ol></main></body></html><form action=/session method=post><button>x",
    "```\n</code></pre><script>window.hit = 1</script>\n```",
    "```\"><script>window.hit=1</script>\nx\n```",
    "| <script>window.hit=1</script> |\n|---|\n| <b onclick=window.hit=1>b</b> |",
    "[x](https://example.com/\" onmouseover=\"window.hit=1)",
    "<style>body { display: none }</style><link rel=stylesheet href=//example.com>",
    "<base href=https://example.com/><meta http-equiv=refresh content=0;url=https://example.com>",
    "{{constructor.constructor('window.hit=1')()}} ${window.hit=1}",
    "\u{202e}desrever si siht\u{202c} \u{2066}isolated",
];

/// File names that try the same.
const NAMES: &[&str] = &[
    "<img src=x onerror=window.hit=1>.txt",
    "report\u{202e}gpj.exe",
    "\"quoted\" 'name' & more.svg",
    "a-name-without-any-space-that-is-far-longer-than-every-screen-is-wide-and-goes-on-and-on-and-on-and-on-and-on.html",
];

fn nothing_ran(visitor: &Visitor) {
    assert_eq!(visitor.browser.value("window.hit ?? 0"), 0, "something ran");
    let foreign = "[...document.querySelectorAll('#messages *')].filter((one) =>
        ['SCRIPT', 'IFRAME', 'STYLE', 'LINK', 'BASE', 'META', 'FORM', 'OBJECT', 'EMBED'].includes(one.tagName)
        || (one.tagName === 'A' && !/^(https?:|mailto:)/.test(one.href))
        || [...one.attributes].some((attribute) => /^on|^style$|^srcdoc$/.test(attribute.name))).map((one) => one.outerHTML)";
    assert_eq!(visitor.browser.value(foreign), json!([]));
    assert_eq!((visitor.count("main"), visitor.count("#composer"), visitor.count("body > nav")), (1, 1, 1));
    stays_in_width(visitor);
}

fn stays_in_width(visitor: &Visitor) {
    let wide =
        "[document.documentElement.scrollWidth - innerWidth, document.querySelector('#scroll').scrollWidth
        - document.querySelector('#scroll').clientWidth]";
    assert_eq!(visitor.browser.value(wide), json!([0, 0]), "something is wider than the window");
}

#[test]
fn hostile_texts_stay_text_for_both_sides() {
    let world = World::new();
    let thread = world.thread();
    for text in TEXTS {
        world.person.says(thread, text);
    }
    let all = TEXTS.join("\n\n");
    world.claude.answers(&all);
    let Some(visitor) = Visitor::at(&world, PHONE) else { return };
    visitor.browser.go(&format!("{}/#/t/{thread}", world.server.url()));
    visitor.says("and the agent says it too");
    visitor.sees(".message:not(.own) .content", "{{constructor");
    visitor.browser.until("document.querySelectorAll('.message.own').length >= 17");
    visitor.browser.run("document.querySelectorAll('.content *').forEach((one) => one.tagName !== 'A' && one.dispatchEvent(new MouseEvent('mouseover', { bubbles: true })))", json!([]));
    nothing_ran(&visitor);
    visitor.has_no_complaint();
}

#[test]
fn hostile_files_are_downloads_with_honest_names() {
    let world = World::new();
    let thread = world.thread();
    let svg = b"<svg xmlns=\"http://www.w3.org/2000/svg\" onload=\"window.hit=1\"><script>window.hit=1</script></svg>";
    let files: Vec<_> = NAMES.iter().map(|name| world.person.uploads(world.channel(), name, svg)).collect();
    world.person.says_with(thread, "look", &files);
    let Some(visitor) = Visitor::at(&world, PHONE) else { return };
    visitor.browser.go(&format!("{}/#/t/{thread}", world.server.url()));
    visitor.browser.until("document.querySelectorAll('.file').length === 4");
    assert_eq!(visitor.count("#messages img"), 0, "a drawing with scripts is no picture");
    let names = visitor.texts(".file-name bdi");
    assert!(names.iter().all(|name| !name.contains('\u{202e}')), "{names:?}");
    nothing_ran(&visitor);
    visitor.browser.click(".file button");
    visitor.sees("dialog pre", "<svg xmlns=");
    nothing_ran(&visitor);
    let place = visitor.browser.downloads();
    visitor.browser.go(&format!("{}/api/v1/files/{}/content", world.server.url(), files[3]));
    let saved = crate::support::wait::eventually("the file is saved, not shown", || {
        let found = std::fs::read_dir(&place).unwrap().filter_map(Result::ok);
        found.map(|entry| entry.path()).find(|path| std::fs::read(path).is_ok_and(|bytes| bytes == svg))
    });
    assert!(saved.exists());
    visitor.is_live();
}

#[test]
fn five_megabytes_go_as_a_file_and_the_longest_message_breaks_nothing() {
    let world = World::new();
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.pastes_words(1024 * 1024);
    visitor.files_are_ready(1);
    visitor.sees(".chip bdi", "pasted.txt");
    visitor.says("short");
    visitor.sees(".message:not(.own)", "an answer");
    let sent = world.person.messages(visitor.thread()).remove(0);
    assert_eq!(sent.attachments[0].size_bytes, 5 * 1024 * 1024);
    world.person.says(visitor.thread(), &"word ".repeat(100 * 1024));
    visitor.sees(".unfold", "Show all (1 line)");
    stays_in_width(&visitor);
    // Else the next message joins the run that works.
    visitor.browser.until("document.querySelectorAll('.run[data-state=completed]').length === 2");
    visitor.says("after it");
    visitor.browser.until("document.querySelectorAll('.run[data-state=completed]').length === 3");
}

#[test]
fn a_long_answer_is_folded_and_opens() {
    let world = World::new();
    let lines: String = (0..400).map(|number| format!("- line {number}\n")).collect();
    world.claude.answers(&lines);
    let Some(visitor) = Visitor::at(&world, DESKTOP) else { return };
    visitor.says("Count");
    visitor.sees(".unfold", "Show all (4");
    visitor.browser.until("document.querySelector('.folded').clientHeight < 500");
    visitor.browser.click(".unfold");
    visitor.browser.until("!document.querySelector('.folded')");
    visitor.sees(".content", "line 399");
}
