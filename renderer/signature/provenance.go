package signature

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ProtonMail/go-crypto/openpgp"
	pgperrors "github.com/ProtonMail/go-crypto/openpgp/errors"
	"helm.sh/helm/v3/pkg/provenance"

	"github.com/sluice-gitops/sluice/internal/safetext"
	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// verifyProvenance has Helm check the provenance file. Helm reads files, so the archive and its provenance are put into
// a folder for the time of the check.
func (s Signer) verifyProvenance(archive []byte, e fetch.Evidence) error {
	if len(e.Provenance) == 0 {
		return errors.New("the repository has no provenance file for the archive")
	}
	ring, err := keyring(s.Keyring)
	if err != nil {
		return err
	}
	if name := e.File; name == "" || name != filepath.Base(name) || name == "." || name == ".." || len(name) > 200 {
		return fmt.Errorf("the archive's name %.60q cannot be a file's", e.File)
	}
	dir, err := os.MkdirTemp("", "sluice-provenance-")
	if err != nil {
		return fmt.Errorf("folder for the check of a provenance file: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	chart, prov := filepath.Join(dir, e.File), filepath.Join(dir, "provenance", e.File+".prov")
	if err := os.Mkdir(filepath.Dir(prov), 0o700); err != nil {
		return fmt.Errorf("folder for the check of a provenance file: %w", err)
	}
	if err := errors.Join(os.WriteFile(chart, archive, 0o600), os.WriteFile(prov, e.Provenance, 0o600)); err != nil {
		return fmt.Errorf("files for the check of a provenance file: %w", err)
	}
	_, err = (&provenance.Signatory{KeyRing: ring}).Verify(chart, prov)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgperrors.ErrUnknownIssuer):
		return errors.New("the provenance file is signed with a key that the keyring does not have")
	}
	return fmt.Errorf("the provenance file does not prove the archive: %s", safetext.Brief(err.Error(), 300))
}

// keyring reads OpenPGP keys, armoured or not.
func keyring(data []byte) (openpgp.EntityList, error) {
	read := openpgp.ReadKeyRing
	if bytes.Contains(data, []byte("-----BEGIN PGP")) {
		read = openpgp.ReadArmoredKeyRing
	}
	ring, err := read(bytes.NewReader(data))
	if err != nil || len(ring) == 0 {
		return nil, errors.New("the keyring has no OpenPGP key: export one by `gpg --export`")
	}
	return ring, nil
}
