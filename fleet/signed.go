package fleet

import (
	"slices"
	"strconv"
)

// charts checks the signers of charts.
func (fc fleetChecks) charts() {
	charts := fc.fleet.Spec.Charts
	seen := map[string]bool{}
	for i, s := range charts.Signers {
		at := []string{"spec", "charts", "signers", strconv.Itoa(i)}
		switch {
		case s.Name == "":
			fc.errorf(fc.file, at, "name: NAME", "a signer of charts needs a name")
		case seen[s.Name]:
			fc.errorf(fc.file, at, "keep one", "the signer %s is listed twice", s.Name)
		}
		seen[s.Name] = true
		fc.chartSigner(at, s)
	}
	checkVerify(fc.findings, fc.fleet, fc.file, []string{"spec", "charts", "verify"}, charts.Verify)
}

func (fc fleetChecks) chartSigner(at []string, s ChartSigner) {
	switch c := s.Cosign; {
	case (s.Provenance == nil) == (c == nil):
		fc.errorf(fc.file, at, "exactly one of them", "the signer %s needs provenance or cosign", s.Name)
	case s.Provenance != nil:
		if s.Provenance.Keyring == "" {
			fc.errorf(fc.file, at, "the path of a file that `gpg --export` wrote", "the signer %s needs keyring",
				s.Name)
		}
		fc.checkPath(fc.file, at, s.Provenance.Keyring, nil)
	case c.Key != "" && (c.Issuer != "" || c.Subject != "" || c.TrustedRoot != ""):
		fc.errorf(fc.file, at, "key alone, or the other three",
			"the signer %s has a key, which excludes issuer, subject and trustedRoot", s.Name)
	case c.Key == "" && (c.Issuer == "" || c.Subject == "" || c.TrustedRoot == ""):
		fc.errorf(fc.file, at, "key, or issuer, subject and trustedRoot",
			"the signer %s says nothing that a signature can be held against", s.Name)
	default:
		fc.checkPath(fc.file, at, c.Key, nil)
		fc.checkPath(fc.file, at, c.TrustedRoot, nil)
	}
}

// checkVerify checks names of signers.
func checkVerify(f *findings, fleet *Fleet, doc document, at, names []string) {
	for i, name := range names {
		if !slices.ContainsFunc(fleet.Spec.Charts.Signers, func(s ChartSigner) bool { return s.Name == name }) {
			f.errorf(doc, append(slices.Clone(at), strconv.Itoa(i)), "a name of spec.charts.signers in sluice.yaml",
				"there is no signer of charts %q", name)
		}
	}
}

// File returns the path of the file that the signer's signatures are held against.
func (s ChartSigner) File() string {
	switch {
	case s.Provenance != nil:
		return s.Provenance.Keyring
	case s.Cosign == nil:
		return ""
	case s.Cosign.Key != "":
		return s.Cosign.Key
	}
	return s.Cosign.TrustedRoot
}
