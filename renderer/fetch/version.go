package fetch

import (
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/sluice-gitops/sluice/internal/safetext"
)

// wanted is a parsed Ref.Version.
type wanted struct {
	text  string
	rng   *semver.Constraints
	exact bool // a whole version, with or without `v`, and not a range
	// manifest is the digest of a chart's manifest in an OCI registry. If there is one, it decides, and the version is
	// only a name.
	manifest string
}

func parseWanted(text string) (wanted, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return wanted{}, fail(ErrInvalid,
			"no version is given: write one, a range such as ^1.2.0, or \"*\" for the newest stable one")
	}
	if len(text) > maxVersion {
		return wanted{}, fail(ErrInvalid, "the version is longer than %d bytes", maxVersion)
	}
	text, manifest, has := strings.Cut(text, "@")
	if _, ok := hexDigest(manifest); has && !ok {
		return wanted{}, fail(ErrInvalid,
			"after @ there is no digest: write VERSION@sha256: and 64 hex digits, or the version alone")
	}
	rng, err := semver.NewConstraint(text)
	if err != nil {
		return wanted{}, fail(ErrInvalid, "%q is neither a version nor a range: write for example 1.2.3 or ^1.2.0",
			safetext.Brief(text, 60))
	}
	_, err = semver.StrictNewVersion(strings.TrimPrefix(text, "v"))
	if has && err != nil {
		return wanted{}, fail(ErrInvalid, "%q is no exact version: a digest needs one before it",
			safetext.Brief(text, 60))
	}
	return wanted{text: text, rng: rng, exact: err == nil, manifest: manifest}, nil
}

// wanted parses the version of a chart at a place.
func (r Ref) wanted(where place) (wanted, error) {
	out, err := parseWanted(r.Version)
	if err == nil && out.manifest != "" && where.oci == nil {
		err = fail(ErrInvalid, "a version with a digest is one of an OCI registry: leave @ and the digest out, sluice.lock has the digest of the archive")
	}
	return out, err
}

// pick chooses as Helm does: the very text first, else the newest version in the range; pre-releases only where the
// range names one. It returns the position in versions. Of versions that differ in build metadata alone, the one
// whose text sorts last is taken, so that the order of the server's list does not matter.
func (w wanted) pick(versions []string) (int, bool) {
	best, bestVersion := -1, (*semver.Version)(nil)
	for i, text := range versions {
		if text == w.text {
			return i, true
		}
		if len(text) > maxVersion {
			continue
		}
		v, err := semver.NewVersion(text)
		if err != nil || !w.rng.Check(v) {
			continue
		}
		if best >= 0 {
			switch c := v.Compare(bestVersion); {
			case c < 0, c == 0 && text <= versions[best]:
				continue
			}
		}
		best, bestVersion = i, v
	}
	return best, best >= 0
}

// none returns the error that no version fits.
func (w wanted) none(versions []string) error {
	newest := wanted{text: "*"}
	hint := "it has no version at all"
	for _, rng := range []string{"*", ">=0.0.0-0"} {
		c, err := semver.NewConstraint(rng)
		if err != nil {
			continue
		}
		newest.rng = c
		if i, ok := newest.pick(versions); ok {
			hint = "the newest is " + safetext.Brief(versions[i], 60)
			break
		}
	}
	if pre, err := semver.NewConstraint(w.text + "-0"); err == nil && !w.exact {
		if i, ok := (wanted{text: w.text + "-0", rng: pre}).pick(versions); ok {
			hint = "only pre-releases such as " + safetext.Brief(versions[i], 60) + " are; write " + w.text +
				"-0 to include them"
		}
	}
	if w.exact {
		return fail(ErrNotFound, "the version %s is not offered; %s", safetext.Brief(w.text, 60), hint)
	}
	return fail(ErrNotFound, "no version in the range %q is offered; %s", safetext.Brief(w.text, 60), hint)
}
