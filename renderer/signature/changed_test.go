package signature

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/fetch"
)

// TestChangedBundles replaces each part of bundles that count. Afterwards only those count in which something changed
// that nobody signed and that nothing depends on: what the same entry of the log says too, or what the signed
// checkpoint says.
func TestChangedBundles(t *testing.T) {
	t.Parallel()
	s := newSigstore(t)
	archive := []byte("the archive of a chart")
	manifest := []byte(`{"layers":[{"mediaType":"application/vnd.cncf.helm.chart.content.v1.tar+gzip","digest":"` +
		digestOf(archive) + `"}]}`)
	signer := Signer{Name: "ci", TrustedRoot: s.root(), Issuer: actions, Subject: workflow}
	for name, c := range map[string]struct {
		bundle []byte
		free   *regexp.Regexp
	}{
		"first generation": {
			s.bundle(digestOf(manifest), bundleAttempt{attempt: s.good()}),
			regexp.MustCompile(`\.(keyid|kindVersion(\.kind|\.version)?)$`),
		},
		"second generation": {
			s.secondBundle(digestOf(manifest), secondAttempt{attempt: s.good()}),
			regexp.MustCompile(`\.(keyid|kindVersion(\.kind|\.version)?|inclusionProof\.(logIndex|rootHash|treeSize))$`),
		},
	} {
		var bundle map[string]any
		if err := json.Unmarshal(c.bundle, &bundle); err != nil {
			t.Fatalf("%s: the error is %v", name, err)
		}
		tried := 0
		changeEach(bundle, "", func(at string, now any) {
			tried++
			_, err := Verify(archive, fetch.Evidence{Manifest: manifest, Bundles: [][]byte{mustJSON(t, bundle)}},
				[]Signer{signer})
			if err == nil && !c.free.MatchString(at) {
				t.Errorf("%s: the bundle counts with %s = %#v", name, at, now)
			}
		})
		if tried < 100 {
			t.Errorf("%s: only %d changes were tried", name, tried)
		}
	}
}

// changeEach calls try after each change of a part of v. It undoes the change afterwards.
func changeEach(v any, at string, try func(at string, now any)) {
	switch parts := v.(type) {
	case map[string]any:
		for key, was := range parts {
			for _, now := range []any{nil, "", "x", -1, []any{}, map[string]any{}} {
				parts[key] = now
				try(at+"."+key, now)
			}
			parts[key] = was
			changeEach(was, at+"."+key, try)
		}
	case []any:
		for i, was := range parts {
			parts[i] = nil
			try(fmt.Sprintf("%s[%d]", at, i), nil)
			parts[i] = was
			changeEach(was, fmt.Sprintf("%s[%d]", at, i), try)
		}
	}
}
