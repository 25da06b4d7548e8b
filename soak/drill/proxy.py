"""Proxies between the nodes and the members of PostgreSQL, to break networks with. Not a command.

Each node has a way of its own to each member: a port on loopback that leads to the member's. A way can be:
    slow        everything takes longer, in both directions
    silent      nothing arrives, and nothing is refused, as when packets are dropped; what was sent arrives once the way is mended
    one way     the same, in one direction: questions get lost (`to`), or answers (`back`)
    half-open   the member has closed its connections, and the node never learns of it; nor of what becomes of new ones until the way is mended

    ways = Ways({("node-1", "pg-1"): (20001, 5433)})     # listens on 20001, leads to 5433
    ways["node-1", "pg-1"].be(delay=0.2)
    ways["node-1", "pg-1"].mend()
    ways.end()

All of them run in one thread.
"""
import asyncio
import contextlib
import threading

TO, BACK = "to", "back"
# How often somebody who waits looks again.
LOOK = 0.02
# How many bytes are passed on together.
CHUNK = 1 << 16


class Way:
    """The way from one node to one member. What is set here counts at once."""

    def __init__(self, port, target):
        self.port, self.target = port, target
        self.delay, self.stopped, self.is_half_open = 0, frozenset(), False
        self.connections, self.passed = set(), {TO: 0, BACK: 0}

    def be(self, delay=0, stopped=(), half_open=False):
        """Breaks it. `stopped` are the directions in which nothing arrives."""
        self.delay, self.stopped, self.is_half_open = delay, frozenset(stopped), half_open
        if half_open:
            for connection in list(self.connections):
                connection.is_dead = True

    def mend(self):
        """Connections that were half-open stay dead: their node has to notice that by itself."""
        self.be()

    def is_mended(self):
        return not (self.delay or self.stopped or self.is_half_open)


class Connection:
    """One connection of a node, and its other half to the member."""

    def __init__(self, way):
        self.way, self.is_dead = way, way.is_half_open

    async def serve(self, reader, writer):
        far = None
        try:
            await self.wait_for(TO)
            if self.is_dead:
                await self.swallow(reader)
                return
            far_reader, far = await asyncio.open_connection("127.0.0.1", self.way.target)
            both = [asyncio.ensure_future(self.pass_on(TO, reader, far)), asyncio.ensure_future(self.pass_on(BACK, far_reader, writer))]
            watch = asyncio.ensure_future(self.die())
            done, rest = await asyncio.wait([*both, watch], return_when=asyncio.FIRST_COMPLETED)
            for task in rest:
                task.cancel()
            await asyncio.gather(*both, watch, return_exceptions=True)
            if watch in done and self.is_dead:
                far.close()
                await self.swallow(reader)
        except OSError:
            pass
        finally:
            for each in (writer, far):
                if each is not None:
                    each.close()

    async def die(self):
        """Ends when the connection is half-open."""
        while not self.is_dead:
            await asyncio.sleep(LOOK)

    async def pass_on(self, direction, reader, writer):
        """Passes on what is sent in one direction, and its end."""
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK):
                if self.way.delay:
                    await asyncio.sleep(self.way.delay)
                await self.wait_for(direction)
                writer.write(data)
                self.way.passed[direction] += len(data)
                await writer.drain()
            await self.wait_for(direction)

    async def wait_for(self, direction):
        while direction in self.way.stopped:
            await asyncio.sleep(LOOK)

    async def swallow(self, reader):
        """Takes what the node sends, and never answers. Ends when the node gives up."""
        with contextlib.suppress(OSError):
            while await reader.read(CHUNK):
                pass


class Ways(dict):
    """Ways by node and member. They are open when this returns."""

    def __init__(self, ports):
        """`ports` says for each way on which port it listens, and to which one it leads."""
        super().__init__({names: Way(port, target) for names, (port, target) in ports.items()})
        self.thread = None
        if self:
            self.loop, is_open = asyncio.new_event_loop(), threading.Event()
            self.thread = threading.Thread(target=self.run, args=(is_open,), daemon=True)
            self.thread.start()
            if not is_open.wait(10):
                raise OSError("the proxies do not start")

    def run(self, is_open):
        asyncio.set_event_loop(self.loop)
        for way in self.values():
            self.loop.run_until_complete(asyncio.start_server(self.server(way), "127.0.0.1", way.port))
        self.loop.call_soon(is_open.set)
        self.loop.run_forever()

    @staticmethod
    def server(way):
        async def serve(reader, writer):
            connection = Connection(way)
            way.connections.add(connection)
            # Cancelled at the end.
            with contextlib.suppress(asyncio.CancelledError):
                await connection.serve(reader, writer)
            way.connections.discard(connection)
        return serve

    def of(self, node):
        """The ways of a node, by member."""
        return {member: way for (its_node, member), way in self.items() if its_node == node}

    def mend(self):
        for way in self.values():
            way.mend()

    def end(self):
        """Closes everything."""
        async def stop():
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.loop.stop()
        if self.thread:
            self.loop.call_soon_threadsafe(lambda: asyncio.ensure_future(stop()))
            self.thread.join(10)
            self.thread = None
