package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-gitops/sluice/bundle/envelope"
	"github.com/sluice-gitops/sluice/internal/safetext"
)

func newBundle(o IO) *cobra.Command {
	c := group(&cobra.Command{
		Use: "bundle", Short: "Carry an environment to a site that no network reaches, and receipts back",
		Long: `An isolated environment has a site: a Git server and a Sluice of its own, which no network reaches. Signed files carry what the
site lacks there, and receipts of what it runs back.`,
		Example: "  sluice bundle export --environment gov --since last --sign ~/.ssh/id_ed25519 -o gov.sluice\n" +
			"  sluice bundle inspect gov.sluice\n" +
			"  sluice bundle import gov.sluice --signers signers.yaml",
	})
	c.AddCommand(newBundleExport(o), newBundleInspect(o), newBundleVerify(o), newBundleDiff(o), newBundleImport(o),
		newBundleReceipt(o))
	return c
}

// verified verifies an envelope by a file of signers, which it requires.
func (t *envelopeTrust) verified(e *envelope.Envelope) (envelope.Verdict, error) {
	trust, err := t.required()
	if err != nil {
		return envelope.Verdict{}, err
	}
	return trust.Verify(e, time.Now())
}

// openedFile is an open envelope in a file.
type openedFile struct {
	*envelope.Envelope
	name string
	file *os.File
}

func (f *openedFile) close() { _ = f.file.Close() } // it was only read

// openEnvelope opens a file.
func openEnvelope(name string) (*openedFile, error) {
	if err := regular(name); err != nil {
		return nil, err
	}
	file, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	var e *envelope.Envelope
	if err == nil {
		if e, err = envelope.Open(file, info.Size()); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &openedFile{e, name, file}, nil
}

// regular refuses what is no file: a pipe on a medium would let the command wait for ever.
func regular(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	return err
}

// envelopes opens a file or, in a folder, all files that end with .sluice and are of a kind, in the order of their
// environments and numbers. The caller closes them.
func envelopes(ctx context.Context, name, kind string) (out []*openedFile, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		one, err := openEnvelope(name)
		if err != nil {
			return nil, err
		}
		return []*openedFile{one}, nil
	}
	list, err := filepath.Glob(filepath.Join(name, "*.sluice"))
	if err != nil {
		return nil, err
	}
	for _, file := range list {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		one, err := openEnvelope(file)
		if err != nil {
			return out, err
		}
		if one.Kind != kind {
			one.close()
			continue
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the folder %s has no %s (files that end with .sluice)", name, strings.ToLower(kind))
	}
	slices.SortStableFunc(out, func(a, b *openedFile) int {
		if c := strings.Compare(a.Environment, b.Environment); c != 0 {
			return c
		}
		return int(a.Sequence - b.Sequence)
	})
	return out, nil
}

// mebibytes prints a number of bytes for people.
func mebibytes(n int64) string {
	const kibi, mebi = 1 << 10, 1 << 20
	switch {
	case n < kibi:
		return fmt.Sprintf("%d B", n)
	case n < mebi:
		return fmt.Sprintf("%.1f KiB", float64(n)/kibi)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/mebi)
}

// quoted makes text of a bundle safe for a terminal.
func quoted(text string) string { return safetext.Brief(text, 300) }
