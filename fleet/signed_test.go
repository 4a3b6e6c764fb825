package fleet

import (
	"strings"
	"testing"
)

const signedCharts = base + `kind: Fleet
metadata: {name: acme}
spec:
  charts:
    verify: [acme]
    signers:
      - {name: acme, provenance: {keyring: keys/acme.gpg}}
      - {name: release, cosign: {key: keys/cosign.pub}}
      - {name: ci, cosign: {issuer: "https://token.actions.githubusercontent.com", subject: "https://github.com/acme/charts/.github/workflows/release.yaml@refs/heads/main", trustedRoot: keys/trusted_root.json}}
  environments:
    - {name: dev}
    - {name: prod, after: [dev]}
`

func TestSignersOfCharts(t *testing.T) {
	t.Parallel()
	files := small()
	files["sluice.yaml"] = signedCharts
	f := load(t, files)
	for i, want := range []string{"keys/acme.gpg", "keys/cosign.pub", "keys/trusted_root.json"} {
		if got := f.Spec.Charts.Signers[i].File(); got != want {
			t.Errorf("file %d is %q, not %q", i, got, want)
		}
	}
	for replace, want := range map[[2]string]string{
		{"verify: [acme]", "verify: [nobody]"}:           `sluice.yaml:6:14: error: there is no signer of charts "nobody"`,
		{"name: release", "name: acme"}:                  "the signer acme is listed twice",
		{"name: release, ", `name: "", `}:                "needs a name",
		{"key: keys/cosign.pub", "key: ../cosign.pub"}:   "leaves the repository",
		{"keyring: keys/acme.gpg", "keyring: /etc/keys"}: "leaves the repository",
		{"key: keys/cosign.pub", "key: k, issuer: x"}:    "which excludes issuer",
		{
			"key: keys/cosign.pub",
			"issuer: x, subject: y",
		}: "says nothing that a signature can be held against",
		{
			"cosign: {key: keys/cosign.pub}",
			"cosign: {}",
		}: "says nothing that a signature can be held against",
		{", cosign: {key: keys/cosign.pub}", ""}:                                         "needs provenance or cosign",
		{"provenance: {keyring: keys/acme.gpg}", `provenance: {keyring: ""}`}:            "needs keyring",
		{"cosign: {key: keys/cosign.pub}", "cosign: {key: k}, provenance: {keyring: r}"}: "needs provenance or cosign",
	} {
		files["sluice.yaml"] = strings.Replace(signedCharts, replace[0], replace[1], 1)
		_, problems := Load(t.Context(), mapFS(files), NewCache())
		if !strings.Contains(problems.Error(), want) {
			t.Errorf("want %s: got\nthe error is\n%s", want, problems.Error())
		}
	}
}

// TestChangesOfKeysAffectEveryTarget: a target is held against the new key, whatever it renders to.
func TestChangesOfKeysAffectEveryTarget(t *testing.T) {
	t.Parallel()
	files := small()
	files["sluice.yaml"] = signedCharts
	before := load(t, files)
	reach := func(*Fleet, Source) []string { return nil }
	if got := Affected(before, before, []string{"README.md"}, reach); len(got) != 0 {
		t.Errorf("the result of Affected is %+v", got)
	}
	all := len(Affected(nil, before, nil, reach))
	if got := Affected(before, before, []string{"keys/cosign.pub"}, reach); len(got) != all || all == 0 {
		t.Errorf("%d of %d", len(got), all)
	}
	files["sluice.yaml"] = strings.Replace(signedCharts, "verify: [acme]", "verify: [ci]", 1)
	if got := Affected(before, load(t, files), []string{"sluice.yaml"}, reach); len(got) != all {
		t.Errorf("%d of %d", len(got), all)
	}
}
