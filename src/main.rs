//! The runner's program: exit code and nothing else.

fn main() -> std::process::ExitCode {
    claude_code_runner::cli::main()
}
