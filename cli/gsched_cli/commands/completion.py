"""`gsched completion`: what a shell needs for completing words."""

from __future__ import annotations

import click

from gsched_cli.completion import SHELLS, script


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the script by which SHELL completes commands, options, jobs, partitions and files.

    For one user, a line in ~/.bashrc or ~/.zshrc (after compinit) is enough, see the example; fish
    reads ~/.config/fish/completions/gsched.fish. For all users, put the script where the shell
    looks for such files.

    \b
    Example:
      eval "$(gsched completion bash)"
      gsched completion bash > /etc/bash_completion.d/gsched
      gsched completion zsh > /usr/local/share/zsh/site-functions/_gsched
      gsched completion fish > ~/.config/fish/completions/gsched.fish
    """
    from gsched_cli.main import COMPLETE_VARIABLE, cli

    print(script(shell, cli, "gsched", COMPLETE_VARIABLE))
