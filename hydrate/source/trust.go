package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/sluice-gitops/sluice/fleet"
	"github.com/sluice-gitops/sluice/gitstore"
	"github.com/sluice-gitops/sluice/renderer/signature"
)

// maxKeys bounds the file of one signer.
const maxKeys = 1 << 20

// Trust is who may sign the charts of a fleet. A nil Trust demands nothing.
type Trust struct {
	Default []string // of apps that name no signer
	Signers []signature.Signer
}

// RefuseAll returns a trust that no chart of a repository or registry passes, for a trunk whose signers cannot be read.
func RefuseAll() *Trust { return &Trust{Default: []string{"of the trunk"}} }

// readTrust reads spec.charts of a fleet, with the files of the keys from the same commit.
func readTrust(snap *gitstore.Snapshot, charts fleet.Charts) (*Trust, error) {
	out := &Trust{Default: charts.Verify}
	for _, s := range charts.Signers {
		one := signature.Signer{Name: s.Name, File: s.File()}
		data, err := snap.ReadFile(one.File)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("%s: the signer %s of charts: %s: no such file in the commit", fleet.File, s.Name,
				one.File)
		case err != nil:
			return nil, fmt.Errorf("%s: the signer %s of charts: %s: %w", fleet.File, s.Name, one.File, err)
		case len(data) == 0 || len(data) > maxKeys:
			return nil, fmt.Errorf("%s: the signer %s of charts: %s has %d bytes, not 1 to %d", fleet.File, s.Name,
				one.File, len(data), maxKeys)
		}
		switch {
		case s.Provenance != nil:
			one.Keyring = data
		case s.Cosign.Key != "":
			one.Key = data
		default:
			one.TrustedRoot, one.Issuer, one.Subject = data, s.Cosign.Issuer, s.Cosign.Subject
		}
		out.Signers = append(out.Signers, one)
	}
	return out, nil
}

// Named returns the signers with the names.
func (t *Trust) Named(names []string) ([]signature.Signer, error) {
	var out []signature.Signer
	for _, name := range names {
		i := -1
		if t != nil {
			i = slices.IndexFunc(t.Signers, func(s signature.Signer) bool { return s.Name == name })
		}
		if i < 0 {
			return nil, fmt.Errorf("the trunk has no signer of charts %q: keys come from the trunk, so merge the signer first, and then what it signed", name)
		}
		out = append(out, t.Signers[i])
	}
	return out, nil
}

// demanded returns the names of the signers of which one must have signed the remote charts of a source. own is what
// the fleet of the commit demands by default, which counts where the trunk demands nothing.
func (t *Trust) demanded(h *fleet.HelmSource, own []string) []string {
	switch {
	case len(h.Verify) > 0:
		return h.Verify
	case t != nil && len(t.Default) > 0:
		return t.Default
	}
	return own
}

// id identifies the demand of an archive: it changes with the signers and their keys. It is empty if nothing is
// demanded.
func (t *Trust) id(names []string) (string, error) {
	if len(names) == 0 {
		return "", nil
	}
	list, err := t.Named(names)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	for _, s := range list {
		fmt.Fprintln(sum, s.Digest())
	}
	return " signed by " + hex.EncodeToString(sum.Sum(nil)), nil
}
