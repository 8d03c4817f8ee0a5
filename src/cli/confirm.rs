//! Questions whose answer is no unless a person says yes.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use dialoguer::theme::{SimpleTheme, Theme as _};
use tokio::sync::oneshot;

use crate::error::Error;

/// Asks on the terminal. Everything but a yes is a no: an empty line, the end of the input, Ctrl-C.
///
/// Without a terminal nobody is asked, and nothing is waited for.
///
/// # Errors
/// [`Error::Declined`] unless the answer is yes.
pub(crate) async fn confirm(explanation: &str, question: &str) -> Result<(), Error> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(Error::Declined(
            "this needs a yes, and there is no terminal to ask on; nothing was done: pass --yes to skip the question"
                .to_owned(),
        ));
    }
    let mut prompt = String::new();
    // Writing to a String cannot fail.
    let _ = SimpleTheme.format_confirm_prompt(&mut prompt, question, Some(false));
    let yes = tokio::select! {
        // Polled first, so that Ctrl-C is caught before the question can be seen.
        biased;
        _ = tokio::signal::ctrl_c() => {
            let _ = writeln!(io::stderr());
            false
        }
        answer = ask(format!("{explanation}\n\n{prompt}")) => answer,
    };
    if yes { Ok(()) } else { Err(Error::Declined("declined: nothing was done".to_owned())) }
}

/// Reads one line as the terminal gives it. dialoguer's own `Confirm` reads single keys of a raw terminal: it does not
/// know the end of the input, and what kills the process leaves the terminal raw.
async fn ask(prompt: String) -> bool {
    let (sender, receiver) = oneshot::channel();
    // A thread that nobody waits for: after Ctrl-C it still sits in its read.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = write!(io::stderr(), "{prompt}").and_then(|()| io::stdin().lock().read_line(&mut line));
        if !line.ends_with('\n') {
            let _ = writeln!(io::stderr());
        }
        // Nobody listens after Ctrl-C.
        let _ = sender.send(read.is_ok() && is_yes(&line));
    });
    receiver.await.unwrap_or(false)
}

fn is_yes(line: &str) -> bool {
    // Without its line end the line was cut short by the end of the input.
    line.ends_with('\n') && matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r13_only_a_whole_line_of_yes_is_a_yes() {
        for yes in ["y\n", "Y\r\n", "yes\n", " YES \n"] {
            assert!(is_yes(yes), "{yes:?}");
        }
        for no in ["", "\n", "n\n", "no\n", "y", "yes", "yess\n", "q\n", "\u{4}\n"] {
            assert!(!is_yes(no), "{no:?}");
        }
    }
}
