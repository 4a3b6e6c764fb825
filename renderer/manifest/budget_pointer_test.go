package manifest_test

import (
	"errors"
	"testing"

	"github.com/sluice-gitops/sluice/renderer/manifest"
)

// A pointer of Git LFS is named as such, whoever parses it.
func TestPointers(t *testing.T) {
	t.Parallel()
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"
	for text, want := range map[string]bool{
		pointer: true, "\xef\xbb\xbf" + pointer: true, "# a comment\n" + pointer: false,
		"version: https://git-lfs.github.com/spec/v1\n": false, "": false,
	} {
		_, decoding := manifest.Decode([]byte(text), manifest.DefaultBudget())
		_, reading := manifest.Value([]byte(text), manifest.DefaultBudget())
		for call, err := range map[string]error{
			"Check": manifest.Check([]byte(text), manifest.DefaultBudget()), "Decode": decoding, "Value": reading,
		} {
			if errors.Is(err, manifest.ErrPointer) != want {
				t.Errorf("%s of %q: the error is %v, want ErrPointer: %t", call, text, err, want)
			}
		}
	}
}
