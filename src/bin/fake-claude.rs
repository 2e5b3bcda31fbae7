//! The stand-in for the Claude Code CLI, as a program.

fn main() -> std::process::ExitCode {
    claude_code_runner::fake_claude::main()
}
