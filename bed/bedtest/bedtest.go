// Package bedtest starts real servers on the loopback interface for tests and demonstrations, instead of the fakes that
// the quick tests use. `make bed` builds the servers (docs/bed.md). The package must not be part of a released binary.
//
// The package is not API: it can change in every release.
package bedtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// ErrNotBuilt means that a server is not in the folder of the bed.
var ErrNotBuilt = errors.New("not built (run make bed; docs/bed.md)")

// Folder returns the folder of the built servers: SLUICE_BED, or sluice-bed in the user's cache folder.
func Folder() (string, error) {
	if dir := os.Getenv("SLUICE_BED"); dir != "" {
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("folder of the bed: %w", err)
	}
	return filepath.Join(dir, "sluice-bed"), nil
}

// part returns the folder of a built server, or an ErrNotBuilt.
func part(name string) (string, error) {
	dir, err := Folder()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, name)
	if built, err := filepath.Glob(filepath.Join(dir, "built-*")); err != nil || len(built) == 0 { // the stamp of the Makefile
		return "", fmt.Errorf("%s: %w", dir, ErrNotBuilt)
	}
	return dir, nil
}

// Need skips a test unless SLUICE_BED_REQUIRED is set, as `make test-bed` does: it starts a real server, which must be
// built then.
func Need(t *testing.T, name string) {
	t.Helper()
	if os.Getenv("SLUICE_BED_REQUIRED") == "" {
		t.Skip("starts a real server: run make test-bed")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the bed runs on Linux only")
	}
	if _, err := part(name); err != nil {
		t.Fatal(err)
	}
}

// FreeAddresses returns addresses of the loopback interface that nobody listens on.
func FreeAddresses(ctx context.Context, n int) ([]string, error) {
	var out []string
	for range n {
		port, err := freePort(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, fmt.Sprintf("127.0.0.1:%d", port))
	}
	return out, nil
}

// freePort returns a port of the loopback interface that nobody listens on.
func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	port := l.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	return port, l.Close()
}
