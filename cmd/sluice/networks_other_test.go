//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

const networkSide = "network-side"

func serveNetworkSide() {}

func namespaces() bool { return false }

func networkCommands() map[string]func(*testscript.TestScript, bool, []string) { return nil }
