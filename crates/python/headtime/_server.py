"""The control socket of a running server."""

import json

from headtime import _native


class Server(_native.Server):
    """A connection to a running ``headtime serve``: named by its drive, or by its control socket.

    Every verb of the control channel is available through :meth:`call`; :meth:`verbs` lists them.
    """

    def call(self, verb, **arguments):
        """Sends a verb with its arguments; returns the answer."""
        return json.loads(self.call_json(verb, json.dumps(arguments)))

    @staticmethod
    def verbs():
        """Returns the verbs, and what each does."""
        return dict(_native.verbs())

    def status(self):
        """Returns the state of the drive, its model, tunables and volumes."""
        return self.call("status")

    def volumes(self):
        """Returns the volumes."""
        return self.call("volume.list")

    def tunables(self, *names):
        """Returns the values of these tunables, or of all, by name."""
        found = self.call("tunables.get", names=list(names))["tunables"]
        return {one["name"]: one["value"] for one in found}

    def set(self, **tunables):
        """Sets tunables: all of them, or none. Returns the changes."""
        pairs = [{"name": name, "value": str(value)} for name, value in tunables.items()]
        return self.call("tunables.set", set=pairs)["changed"]
