package receipt

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func id(c string) string { return strings.Repeat(c, 40) }

// whole is a receipt with every field.
func whole() Receipt {
	return Receipt{
		APIVersion: Version, Kind: Kind, Fleet: "acme", Environment: "gov", Site: "gov-east", Sequence: 7, Made: noon,
		Incoming: id("a"), Trunk: id("b"), Bundle: &Bundle{Sequence: 42, Digest: strings.Repeat("c", 64)},
		Branch:  Branch{Commit: id("d"), Tree: id("e"), Source: id("f"), Since: noon.Add(-2 * time.Hour)},
		Rollout: Rollout{Tree: id("e"), Started: noon.Add(-2 * time.Hour), Healthy: noon.Add(-time.Hour), Done: noon.Add(-time.Minute)},
		Clusters: []Cluster{
			{
				Name: "gov-1", Branch: Branch{Commit: id("1"), Tree: id("2"), Source: id("f"), Since: noon.Add(-time.Hour)}, Desired: id("2"),
				Statuses: []Status{{Name: "kustomization/shop", State: "success"}},
			},
			{Name: "gov-2", Desired: id("3"), Frozen: true, StatusesUnknown: "no forge is configured here"},
		},
		Halt:    &Halt{Reason: "health is red", At: noon.Add(-time.Minute)},
		Freezes: []Freeze{{Cluster: "gov-2", By: "ana", Reason: "an audit", From: noon.Add(-time.Hour), Until: noon.Add(48 * time.Hour)}},
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Receipt{
		"whole": whole(),
		"least": {
			APIVersion: Version, Kind: Kind, Fleet: "acme", Environment: "gov", Site: "s", Sequence: 1, Made: noon, Trunk: id("b"),
			Clusters: []Cluster{},
		},
	} {
		data, err := r.Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// What a site never writes is refused, whoever signed it.
func TestAttacksOnReceipts(t *testing.T) {
	t.Parallel()
	good, err := whole().Encode()
	if err != nil {
		t.Fatal(err)
	}
	text := func(old, by string) []byte {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("%q is not in the receipt", old)
		}
		return bytes.Replace(good, []byte(old), []byte(by), 1)
	}
	for name, data := range map[string][]byte{
		"empty":                     nil,
		"null":                      []byte("null\n"),
		"list":                      []byte("[]\n"),
		"cut":                       good[:len(good)/2],
		"cut by its last byte":      good[:len(good)-1],
		"longer by a space":         append(bytes.Clone(good), ' '),
		"two receipts":              append(bytes.Clone(good), good...),
		"unknown field":             text(`"fleet"`, `"extra": 1, "fleet"`),
		"field twice":               text(`"sequence": 7`, `"sequence": 9, "sequence": 7`),
		"field in capitals":         text(`"fleet"`, `"Fleet"`),
		"other order":               text(`"fleet": "acme",`+"\n "+`"environment": "gov"`, `"environment": "gov",`+"\n "+`"fleet": "acme"`),
		"other white space":         text(`"fleet": `, `"fleet":  `),
		"escaped letter":            text(`"acme"`, `"\u0061cme"`),
		"other version":             text("v1alpha1", "v2"),
		"other kind":                text(`"Receipt"`, `"Bundle"`),
		"sequence zero":             text(`"sequence": 7`, `"sequence": 0`),
		"negative sequence":         text(`"sequence": 7`, `"sequence": -7`),
		"sequence beyond int64":     text(`"sequence": 7`, `"sequence": 9223372036854775808`),
		"fractional sequence":       text(`"sequence": 7`, `"sequence": 7.5`),
		"local time":                text(`"made": "2026-11-30T12:00:00Z"`, `"made": "2026-11-30T12:00:00+01:00"`),
		"time with nanoseconds":     text(`"made": "2026-11-30T12:00:00Z"`, `"made": "2026-11-30T12:00:00.5Z"`),
		"no time":                   text(`"made": "2026-11-30T12:00:00Z"`, `"made": "0001-01-01T00:00:00Z"`),
		"year 1970":                 text(`"made": "2026-11-30T12:00:00Z"`, `"made": "1970-01-01T00:00:00Z"`),
		"short commit":              text(id("d"), "dddddddddd"),
		"commit in capitals":        text(id("d"), strings.ToUpper(id("d"))),
		"commit that is a ref":      text(id("b"), "refs/heads/main"),
		"no trunk":                  text(id("b"), ""),
		"digest of another kind":    text(`"digest": "`, `"digest": "sha256:`),
		"bundle zero":               text(`"sequence": 42`, `"sequence": 0`),
		"branch without a tree":     text(`"tree": "`+id("2")+`",`, ""),
		"name with a path":          text(`"gov-east"`, `"../gov-east"`),
		"cluster with a slash":      text(`"gov-1"`, `"gov/1"`),
		"no cluster name":           text(`"gov-1"`, `""`),
		"clusters out of order":     text(`"gov-1"`, `"gov-3"`),
		"cluster twice":             text(`"gov-1"`, `"gov-2"`),
		"no list of clusters":       text(`"clusters": [`, `"clusters": null, "x": [`),
		"unknown state of a status": text(`"success"`, `"fine"`),
		"control character":         text("an audit", `an\u001b[2Jaudit`),
		"text from right to left":   text("an audit", "an \u202eaudit"),
		"line break in a reason":    text("health is red", `health\nis red`),
		"long reason":               text("an audit", strings.Repeat("x", MaxText+1)),
		"invalid UTF-8":             text("an audit", "an \xff audit"),
		"deep nesting":              []byte(strings.Repeat("[", 1_000_000)),
		"huge":                      bytes.Repeat([]byte(" "), MaxBytes+1),
	} {
		if r, err := Decode(data); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: it is read, with the error %v: %+v", name, err, r)
		} else if strings.ContainsAny(err.Error(), "\x1b\u202e\n") || len(err.Error()) > 3000 {
			t.Errorf("%s: the message is not fit to show: %q", name, err)
		}
	}
}

// The numbers of a receipt are bounded even if a site is large.
func TestBoundsOfReceipts(t *testing.T) {
	t.Parallel()
	r := whole()
	for range MaxStatuses {
		r.Clusters[0].Statuses = append(r.Clusters[0].Statuses, Status{"kustomization/shop", "success"})
	}
	if _, err := r.Encode(); err == nil || !strings.Contains(err.Error(), "clusters[0].statuses: 201 are more than 200") {
		t.Errorf("the error is %v", err)
	}
	r = whole()
	r.Freezes = make([]Freeze, MaxFreezes+1)
	if _, err := r.Encode(); err == nil || !strings.Contains(err.Error(), "freezes: 1001") {
		t.Errorf("the error is %v", err)
	}
	r = whole()
	r.Clusters = make([]Cluster, MaxClusters+1)
	if _, err := r.Encode(); err == nil || !strings.Contains(err.Error(), "clusters: 20001") {
		t.Errorf("the error is %v", err)
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "an audit", "a\nb", strings.Repeat("\x1b", 10_000), strings.Repeat("ü", MaxText+1), "\xff"} {
		r := whole()
		r.Halt.Reason = Text(s)
		if _, err := r.Encode(); err != nil {
			t.Errorf("%.20q: %v", s, err)
		}
	}
}

// A receipt is not made after its import: the clock of its site is ahead then, and so are all of its times.
func TestClocks(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	for name, c := range map[string]struct {
		imported    time.Time
		made, since time.Time // as understood
		ahead       time.Duration
	}{
		"equal clocks":            {noon.Add(time.Hour), noon, noon.Add(-2 * time.Hour), 0},
		"imported at once":        {noon, noon, noon.Add(-2 * time.Hour), 0},
		"the site a day ahead":    {noon.Add(-day), noon.Add(-day), noon.Add(-day - 2*time.Hour), day},
		"the site a day behind":   {noon.Add(day), noon, noon.Add(-2 * time.Hour), 0},
		"ahead by part of a hour": {noon.Add(-10 * time.Minute), noon.Add(-10 * time.Minute), noon.Add(-130 * time.Minute), 10 * time.Minute},
	} {
		r := whole()
		got, ahead := r.OnClock(c.imported)
		if !got.Made.Equal(c.made) || !got.Branch.Since.Equal(c.since) || ahead != c.ahead {
			t.Errorf("%s: made %s, since %s, ahead by %s", name, got.Made, got.Branch.Since, ahead)
		}
		if bake := got.Made.Sub(got.Rollout.Healthy); bake != time.Hour {
			t.Errorf("%s: it baked for %s", name, bake)
		}
		if until := got.Freezes[0].Until; until.Sub(got.Made) != 48*time.Hour {
			t.Errorf("%s: the freeze ends %s after the receipt", name, until.Sub(got.Made))
		}
	}
	r := whole()
	r.Branch.Since, r.Rollout.Healthy = noon.Add(day), noon.Add(day)
	if got, _ := r.OnClock(noon); !got.Branch.Since.Equal(noon) || !got.Rollout.Healthy.Equal(noon) {
		t.Errorf("what ran from the future on counts from %s and %s", got.Branch.Since, got.Rollout.Healthy)
	}
	if r.Branch.Since != noon.Add(day) || r.Clusters[0].Branch.Since != noon.Add(-time.Hour) {
		t.Error("the receipt itself has changed")
	}
}

func TestImports(t *testing.T) {
	t.Parallel()
	want := Import{At: noon, By: "ana", Manifest: strings.Repeat("c", 64), Signers: []string{"site@gov"}, Restored: "a new disk"}
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeImport(data)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	for _, bad := range []string{"", "null", "{}", `{"at": "2026-11-30T12:00:00Z", "manifest": "x"}`, string(data) + "{}", `{"other": 1}`} {
		if i, err := DecodeImport([]byte(bad)); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %+v, %v", bad, i, err)
		}
	}
}

// Whatever is decoded is encoded to the same bytes, and nothing panics.
func FuzzDecode(f *testing.F) {
	good, err := whole().Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"success"`), []byte(`"fine"`), 1))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("the error is %v", err)
			}
			return
		}
		again, err := r.Encode()
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%v: %q was read, and %q is written", err, data, again)
		}
		onClock, ahead := r.OnClock(noon)
		if onClock.Made.After(noon) || ahead < 0 {
			t.Fatalf("a receipt of %s is imported at %s", onClock.Made, noon)
		}
	})
}
