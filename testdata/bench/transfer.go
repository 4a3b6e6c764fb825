package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

const isolatedFleet = `apiVersion: sluice.dev/v1alpha1
kind: Fleet
metadata: {name: bench}
spec:
  layers: [environment, region, cluster]
  environments:
    - name: dev
    - name: prod
      after: [dev]
      promotion: {mode: manual}
      isolated: {}
`

// transfers measures the export of transfer bundles beside `git bundle create` of the same branch from the same commit.
type transfers struct{ repositories }

func (b transfers) run(clusters, apps int) error {
	fmt.Printf("\n== transfer bundles of an environment of %d clusters × %d apps, beside git bundle\n", clusters, apps)
	src := filepath.Join(b.dir, "transfer")
	if err := generate(src, clusters, apps, globalValues); err != nil {
		return err
	}
	if err := stages(src); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(src, "sluice.yaml"), []byte(isolatedFleet), 0o644); err != nil {
		return err
	}
	if err := b.publish(src); err != nil {
		return err
	}
	key := filepath.Join(b.dir, "transfer.key")
	if err := writeKey(key); err != nil {
		return err
	}
	steps := [][]string{{"hydrate", "--push", "-q"}, {"promote", "prod", "-q", "--by", "ada"}}
	release := func() error {
		for _, args := range steps {
			if _, err := b.command(src, b.sluice, args...); err != nil {
				return err
			}
		}
		return nil
	}
	export := func(file string, more ...string) (measured, error) {
		return b.command(src, b.sluice, append([]string{"bundle", "export", "--environment", "prod", "--sign", key, "-q", "-o", file}, more...)...)
	}
	if err := release(); err != nil {
		return err
	}
	if _, err := export(filepath.Join(b.dir, "full.sluice"), "--full"); err != nil {
		return err
	}
	base, err := b.output(src+".git", "git", "rev-parse", "env/prod")
	if err != nil {
		return err
	}
	if err := b.edit(src, "apps/app-05/layers/global/values.yaml", globalValues+"extra: changed\n"); err != nil {
		return err
	}
	if err := release(); err != nil {
		return err
	}
	first := filepath.Join(b.dir, "thin.sluice")
	if _, err := export(first, "--since", "last"); err != nil {
		return err
	}
	if err := b.beside("one app's change", first, strings.TrimSpace(base), src, export); err != nil {
		return err
	}
	if err := b.git(src+".git", "gc", "-q", "--prune=now"); err != nil {
		return err
	}
	return b.beside("the same after git gc", first, strings.TrimSpace(base), src, export)
}

// beside exports the bundle again and writes what git bundle makes of the same commits, in turn.
func (b transfers) beside(what, file, base, src string, export func(file string, more ...string) (measured, error)) error {
	const rounds = 7
	var ours, theirs measured
	peer := filepath.Join(b.dir, "thin.bundle")
	for i := range rounds {
		again := filepath.Join(b.dir, fmt.Sprintf("again-%d.sluice", i))
		m, err := export(again, "--again", "2")
		if err != nil {
			return err
		}
		if err := os.Remove(again); err != nil {
			return err
		}
		g, err := b.command(src+".git", "git", "bundle", "create", "-q", peer, "env/prod", "^"+base)
		if err != nil {
			return err
		}
		if i == 0 {
			ours, theirs = m, g
		}
		ours.wall, ours.cpu = min(ours.wall, m.wall), min(ours.cpu, m.cpu)
		theirs.wall, theirs.cpu = min(theirs.wall, g.wall), min(theirs.cpu, g.cpu)
	}
	size := func(file string) (float64, error) {
		info, err := os.Stat(file)
		if err != nil {
			return 0, err
		}
		return float64(info.Size()), nil
	}
	have, err := size(file)
	if err != nil {
		return err
	}
	want, err := size(peer)
	if err != nil {
		return err
	}
	milli := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Printf("%-22s time %.1f ms, %.2f × git bundle (to reach: 2), processor time %.1f ms, %.2f ×; size %.1f KiB, %.2f × (to reach: 2)\n", what,
		milli(ours.wall), ratio(ours.wall, theirs.wall), milli(ours.cpu), ratio(ours.cpu, theirs.cpu), have/1024, have/want)
	return nil
}

// writeKey writes a new SSH key.
func writeKey(file string) error {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, "bench")
	if err != nil {
		return err
	}
	return os.WriteFile(file, pem.EncodeToMemory(block), 0o600)
}
