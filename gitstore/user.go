package gitstore

import (
	"context"
	"os/exec"
	"strings"
)

// UserName returns user.name of the Git configuration in a folder. It returns "" if it is not set or Git is not
// installed.
func UserName(ctx context.Context, dir string) string {
	//nolint:gosec // a folder, no shell
	out, err := exec.CommandContext(ctx, "git", "-C", dir, "config", "--get", "user.name").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
