//! In a terminal: the prompt, the progress bar, colours.

use crate::db::{Db, on_each_database};
use crate::run::Terminal;

on_each_database! {
    forget_asks_and_takes_a_yes
    forget_takes_all_else_for_a_no
    prune_shows_a_bar
}

const QUESTION: &str = "[y/N] ";

async fn forget_asks_and_takes_a_yes(db: Db) {
    let db = db.migrated();
    for (key, answer) in [("evt-1", "y\n"), ("evt-2", "YES\n")] {
        db.insert("billing", &[key], 0).await;
        let mut terminal = db.terminal(&["forget", "billing", key]);
        terminal.wait_for(QUESTION);
        let screen = terminal.screen();
        for part in [
            "consumer      billing",
            key,
            "runs again",
            "not undone",
            "Remove this claim from `",
        ] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
        assert_eq!(db.claims().await, 1, "it asks first");
        terminal.type_in(answer);
        let (code, screen) = terminal.end();
        assert_eq!(code, 0, "{screen}");
        assert!(
            screen.contains("removed the claim of `billing`"),
            "{screen}"
        );
        assert_eq!(
            screen.matches("runs again").count(),
            1,
            "said once: {screen}"
        );
        assert_eq!(db.claims().await, 0);
    }
}

async fn forget_takes_all_else_for_a_no(db: Db) {
    let db = db.migrated();
    db.insert("billing", &["evt-1"], 0).await;
    // Ctrl-C, and Ctrl-D, the end of the input.
    for answer in ["n\n", "\n", "yikes\n", "\x03", "\x04"] {
        let mut terminal = db.terminal(&["forget", "billing", "evt-1"]);
        terminal.wait_for(QUESTION);
        terminal.type_in(answer);
        let (code, screen) = terminal.end();
        assert_eq!(code, 7, "{answer:?}: {screen}");
        assert!(
            screen.contains("declined; nothing was removed"),
            "{answer:?}: {screen}"
        );
        assert_eq!(db.claims().await, 1, "{answer:?}");
    }
    let terminal = db.terminal(&["forget", "billing", "evt-1", "--yes"]);
    let (code, screen) = terminal.end();
    assert_eq!((code, screen.contains(QUESTION)), (0, false), "{screen}");
}

async fn prune_shows_a_bar(db: Db) {
    let db = db.migrated();
    let prune = [
        "prune",
        "--retain",
        "7d",
        "--redelivery",
        "4d",
        "--chunk",
        "100",
        "--pause",
        "60ms",
    ];
    for consumer in ["billing", "mail", "search", "audit"] {
        let keys: Vec<String> = (0..1000).map(|key| format!("evt-{key}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        db.insert(consumer, &keys, 30).await;
    }
    let (code, screen) = db.terminal(&prune).end();
    assert_eq!(code, 0, "{screen}");
    assert!(screen.contains("pruning ["), "{screen}");
    assert!(screen.contains("/4,000 claims"), "{screen}");
    assert!(
        screen.contains("/s  ") && screen.contains(" left"),
        "{screen}"
    );
    assert!(screen.contains("removed 4,000 claims in "), "{screen}");
    // And none where nobody watches.
    db.insert("billing", &["evt-1"], 30).await;
    let answer = db.idem(&prune).done();
    assert!(answer.starts_with("removed 1 claim in 1 chunk"), "{answer}");
}

#[tokio::test]
async fn colours_are_for_terminals() {
    let db = Db::sqlite().await.migrated();
    db.insert("billing", &["evt-1"], 0).await;
    let status = |environment: &[(&str, &str)]| {
        let url = ("DATABASE_URL", db.url.as_str());
        let environment = [&[url], environment].concat();
        Terminal::start(&["status"], &environment).end().1
    };
    assert!(status(&[]).contains("\x1b[1mconsumer"));
    for plain in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let screen = status(&[plain]);
        assert!(
            screen.contains("consumer") && !screen.contains('\x1b'),
            "{screen:?}"
        );
    }
    assert!(
        status(&[("NO_COLOR", "")]).contains('\x1b'),
        "an empty one counts for nothing"
    );
    assert!(!db.idem(&["status"]).done().contains('\x1b'));
    let error = Terminal::start(&["status"], &[("DATABASE_URL", "sqlite:/nowhere/app.db")]);
    let (code, screen) = error.end();
    assert_eq!(code, 3);
    assert!(screen.contains("\x1b[1;31merror:\x1b[0m "), "{screen:?}");
}
