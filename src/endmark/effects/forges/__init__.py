"""What a decision tells a forge: a check run at GitHub, a commit status at GitLab."""
