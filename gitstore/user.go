package gitstore

import (
	"context"
	"os/exec"
	"strings"
)

// UserName returns user.name of the Git configuration in a folder. It returns "" if it is not set or Git is not
// installed.
func UserName(ctx context.Context, dir string) string {
	out, err := exec.CommandContext(ctx, "git", "-C", dir, "config", "--get", "user.name").Output() //nolint:gosec // a folder, no shell
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
