package policy

import (
	"testing"
	"testing/fstest"

	"github.com/sluice-gitops/sluice/internal/mistakes"
)

// No mistake in the files of a policy is reported with a word of Go.
func TestMistakesAreNamedInPlainWords(t *testing.T) {
	t.Parallel()
	tried, refused := 0, 0
	for name, text := range map[string]string{
		"policy.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Policy\nmetadata: {name: acme}\nspec:\n  rules:\n" +
			"    image-tag: {severity: warning, environments: {prod: error, dev: \"off\"}}\n" +
			"    privileged: {allow: {cilium: [\"*\"]}}\n  parameters: {maxReplicas: 20}\n",
		"exemptions.yaml": "apiVersion: sluice.dev/v1alpha1\nkind: Exemption\nmetadata: {name: host}\nspec:\n" +
			"  rule: privileged\n  object: DaemonSet monitoring/node-exporter\n  environments: [prod]\n" +
			"  reason: reads the host's metrics\n  until: 2027-03-31\n",
	} {
		for what, wrong := range mistakes.Of(t, text) {
			tried++
			_, err := Load(t.Context(), fstest.MapFS{"policy/" + name: &fstest.MapFile{Data: []byte(wrong)}}, Options{})
			if err == nil {
				continue
			}
			refused++
			if word := mistakes.WordOfGo(err.Error()); word != "" {
				t.Errorf("%s, %s: %q is in the message:\n%v", name, what, word, err)
			}
		}
	}
	if tried < 200 || refused < tried/2 {
		t.Errorf("%d mistakes were tried and %d refused, want at least 200 and half of them", tried, refused)
	}
}
