package gitstore

import (
	"context"
	"os/exec"
	"strings"
)

// UserName returns the user.name of Git's configuration in a folder, or "" if none is set or Git is not installed.
func UserName(ctx context.Context, dir string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", dir, "config", "--get", "user.name").Output() //nolint:gosec // a folder, no shell
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
