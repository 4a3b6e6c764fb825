// Package bedtest starts real servers on the loopback interface for tests and demonstrations, instead of the fakes that
// the quick tests use. `make bed` builds the servers (docs/bed.md). The package must not be part of a released binary.
//
// The package is not API: it can change in every release.
package bedtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
	if _, err := os.Stat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s: %w", filepath.Join(dir, name), ErrNotBuilt)
	} else if err != nil {
		return "", err
	}
	return dir, nil
}

// Need skips a test if the server is not built, and if the test is not to take long. SLUICE_BED_REQUIRED makes a
// missing server an error.
func Need(t *testing.T, name string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real servers: run make test-bed")
	}
	if runtime.GOOS != "linux" {
		t.Skip("the bed runs on Linux only")
	}
	_, err := part(name)
	switch {
	case err == nil:
	case errors.Is(err, ErrNotBuilt) && os.Getenv("SLUICE_BED_REQUIRED") == "":
		t.Skip(err)
	default:
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
