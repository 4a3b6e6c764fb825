package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// folder opens all files of a folder that end with .sluice and are of a kind, in the order of their environments and
// numbers. It tells skip of files that are none, or that the medium or somebody damaged. The caller closes the others.
func folder(ctx context.Context, name, kind string, skip func(file string, why error)) (out []*openedFile, err error) {
	list, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, entry := range list {
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if !strings.HasSuffix(entry.Name(), ".sluice") || strings.HasPrefix(entry.Name(), ".") { // of other programs
			continue
		}
		file := filepath.Join(name, entry.Name())
		one, err := openEnvelope(file)
		if err != nil {
			skip(file, err)
			continue
		}
		if one.Kind != kind {
			one.close()
			continue
		}
		out = append(out, one)
	}
	slices.SortStableFunc(out, func(a, b *openedFile) int {
		return cmp.Or(strings.Compare(a.Environment, b.Environment), cmp.Compare(a.Sequence, b.Sequence))
	})
	return out, nil
}

// envelopeDigest is the digest of the file that somebody has looked at.
type envelopeDigest struct{ want string }

func (d *envelopeDigest) flag(f *pflag.FlagSet) {
	f.StringVar(&d.want, "digest", "", "refuse the file unless it has this `SHA256`, which inspect and export print")
}

func (d *envelopeDigest) valid() error {
	if d.want != "" && digest.SHA256.Validate(d.want) != nil {
		return usagef("--digest wants the 64 hexadecimal digits of the digest that `sluice bundle inspect` prints")
	}
	return nil
}

func (d *envelopeDigest) check(f *openedFile) error {
	if d.want == "" || d.want == f.Digest {
		return nil
	}
	return fmt.Errorf("%s has the digest %s, and --digest wants %s: it is not the file that was looked at", f.name, f.Digest, d.want)
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
